/* SPDX-License-Identifier: MIT
 *
 * test_output.c: the files that patterns name, and the head of a report.
 */
#include "shim/reports/output.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/shim/reports/report_file.h"
#include "tests/unit/own_directory.h"
#include "vm/pages.h"

static const struct allocator allocator = {.name = "first", .preset = "old"};
static const struct configuration configuration = {.allocator = &allocator};

static bool was_json;

static bool write_head(int file, bool json)
{
    struct emitter emitter;
    was_json = json;
    output_begin(&emitter, file, json, "allotrope.test/1", &configuration);
    return output_end(&emitter);
}

static bool write_nothing(int file, bool json)
{
    (void)file;
    (void)json;
    return true;
}

static bool fail_to_write(int file, bool json)
{
    return !write_nothing(file, json);
}

/* A path in the test's directory, in storage of its own until the next call. */
static const char *in_directory(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void write_to(const char *pattern, bool write(int file, bool json))
{
    output_write((struct output_pattern){.text = pattern}, "ALLOTROPE_TEST", write);
}

static const char *text_of(const char *name)
{
    int file = open(in_directory(name), O_RDONLY);
    assert_true(file >= 0);
    return report_file_text(file);
}

static void test_a_name_that_ends_in_json_asks_for_json(void **state)
{
    (void)state;
    write_to(in_directory("report.json"), write_head);
    assert_true(was_json);
    char expected[512];
    snprintf(expected, sizeof expected,
             "{\n  \"schema\": \"allotrope.test/1\",\n  \"pid\": %d,\n  \"command\": \"%s\",\n"
             "  \"allocator\": \"first\",\n  \"preset\": \"old\"\n}\n",
             (int)getpid(), "test_output");
    assert_string_equal(text_of("report.json"), expected);
    write_to(in_directory("report.json.txt"), write_head);
    assert_false(was_json);
    assert_memory_equal(text_of("report.json.txt"), "schema     ", 11);
    write_to(in_directory("json"), write_head);
    assert_false(was_json);
}

static void test_the_process_id_stands_in_the_name(void **state)
{
    (void)state;
    char name[64];
    write_to(in_directory("%p-%p%q%%p"), write_nothing);
    snprintf(name, sizeof name, "%d-%d%%q%%%d", (int)getpid(), (int)getpid(), (int)getpid());
    assert_string_equal(text_of(name), "");
}

/* The folder's name has what would be a pattern in the report's. */
static void write_from_another_folder(void *unused)
{
    (void)unused;
    require(mkdir(in_directory("%p"), 0700) == 0 && chdir(in_directory("%p")) == 0);
    struct output_pattern kept = output_keep("own-%p");
    require(chdir("/") == 0);
    output_write(kept, "ALLOTROPE_TEST", write_nothing);
    char name[64];
    snprintf(name, sizeof name, "%%p/own-%d", (int)getpid());
    require(unlink(in_directory(name)) == 0 && rmdir(in_directory("%p")) == 0);
}

static void test_a_report_goes_to_the_folder_of_the_start(void **state)
{
    (void)state;
    struct ending ending = run_child(write_from_another_folder, NULL);
    assert_succeeded(&ending);
    assert_string_equal(ending.errors, "");
}

static void test_a_pattern_is_kept_as_it_is_or_not_at_all(void **state)
{
    (void)state;
    static char text[OUTPUT_NAME_BYTES + 1] = "/";
    memset(text + 1, 'x', OUTPUT_NAME_BYTES - 2);
    assert_string_equal(output_keep(text).text, text);
    assert_int_equal(output_keep(text).folder_bytes, 0);
    text[OUTPUT_NAME_BYTES - 1] = 'x';
    assert_null(output_keep(text).text);
    assert_null(output_keep(text + 2).text); /* with its folder */
    assert_string_equal(output_keep("").text, "");
    assert_string_equal(output_keep("-").text, "-");
}

static void test_a_report_replaces_the_file_that_was_there(void **state)
{
    (void)state;
    write_to(in_directory("again"), write_head);
    assert_string_not_equal(text_of("again"), "");
    write_to(in_directory("again"), write_nothing);
    assert_string_equal(text_of("again"), "");
}

/* How many files there are whose names begin so, hidden ones as well. */
static int count_files(const char *begin)
{
    int count = 0;
    DIR *files = opendir(directory);
    const struct dirent *file;
    while (files && (file = readdir(files)))
        count += strncmp(file->d_name + (file->d_name[0] == '.'), begin, strlen(begin)) == 0;
    if (files)
        closedir(files);
    return count;
}

static ino_t file_at(const char *name)
{
    struct stat status;
    return stat(in_directory(name), &status) == 0 ? status.st_ino : 0;
}

static void write_again(const char *name, bool write(int file, bool json))
{
    write_to(in_directory(name), write);
}

static bool write_half_and_fail(int file, bool json)
{
    return write_head(file, json) && ftruncate(file, 5) == 0 && fail_to_write(file, json);
}

static void fail_over_an_older_report(void *unused)
{
    (void)unused;
    write_again("older", write_half_and_fail);
}

static void test_a_report_that_does_not_fit_leaves_the_older_one(void **state)
{
    (void)state;
    write_again("older", write_head);
    chmod(in_directory("older"), 0640);
    ino_t before = file_at("older");
    struct ending ending = run_child(fail_over_an_older_report, NULL);
    assert_non_null(strstr(ending.errors, "older\": the disk is full"));
    assert_int_equal(file_at("older"), before);
    assert_memory_equal(text_of("older"), "schema     ", 11);
    assert_int_equal(count_files("older"), 1);
}

/* Who has the older one open goes on reading it. */
static void test_a_report_replaces_an_older_one_in_one_step(void **state)
{
    (void)state;
    struct stat status;
    write_again("step", write_head);
    chmod(in_directory("step"), 0640);
    int older = open(in_directory("step"), O_RDONLY);
    write_again("step", write_nothing);
    assert_string_equal(text_of("step"), "");
    assert_memory_equal(report_file_text(older), "schema     ", 11);
    assert_int_equal(stat(in_directory("step"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    assert_int_equal(count_files("step"), 1);
}

/* A link stays, and what it points to is written in place; so is a file in a folder that takes no
 * other, and an empty one, which somebody may have open who waits for the report. */
static void test_what_is_no_report_of_before_is_written_in_place(void **state)
{
    (void)state;
    struct stat status;
    write_again("target", write_head);
    ino_t target = file_at("target");
    assert_int_equal(symlink("target", in_directory("link")), 0);
    write_again("link", write_nothing);
    assert_int_equal(lstat(in_directory("link"), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_string_equal(text_of("target"), "");
    write_again("target", write_head);
    assert_int_equal(file_at("target"), target);
}

static void write_where_no_other_file_may_be(void *unused)
{
    (void)unused;
    if (setgid(65534) < 0 || setuid(65534) < 0)
        _exit(CHILD_CANNOT_TELL);
    write_again("mine", write_nothing);
}

static void test_a_folder_that_takes_no_other_file_is_no_obstacle(void **state)
{
    (void)state;
    write_again("mine", write_head);
    chmod(in_directory("mine"), 0666);
    chmod(directory, 0755);
    struct ending ending = run_child(write_where_no_other_file_may_be, NULL);
    if (ending.exit_status == CHILD_CANNOT_TELL)
        skip();
    assert_string_equal(ending.errors, "");
    assert_string_equal(text_of("mine"), "");
    /* Now a folder whose files only their owners may replace. */
    char protected = '0';
    int setting = open("/proc/sys/fs/protected_regular", O_RDONLY);
    if (setting >= 0 && read(setting, &protected, 1) == 1 && protected == '0') {
        write_again("mine", write_head);
        chmod(directory, 01777);
        ending = run_child(write_where_no_other_file_may_be, NULL);
        assert_string_equal(ending.errors, "");
        assert_string_equal(text_of("mine"), "");
    }
    close(setting);
    assert_int_equal(count_files("mine"), 1);
}

static void test_nothing_and_a_dash_are_standard_error(void **state)
{
    (void)state;
    assert_true(output_is_standard_error(""));
    assert_true(output_is_standard_error("-"));
    assert_false(output_is_standard_error("--"));
    assert_false(output_is_standard_error("a"));
}

static void write_to_standard_error(void *pattern)
{
    write_to(pattern, write_head);
    require(!was_json);
}

static void write_half(void *pattern)
{
    write_to(pattern, fail_to_write);
}

static void write_where_nothing_can_be(void *unused)
{
    (void)unused;
    static char long_name[OUTPUT_NAME_BYTES + 10];
    memset(long_name, 'x', sizeof long_name - 1);
    write_to("/nonexistent/a\"b", write_nothing);
    write_to(long_name, write_nothing);
    write_to(in_directory("unwritable"), fail_to_write);
}

/* The file that a link points to is emptied, the link stays. */
static void test_half_a_report_behind_a_link_leaves_the_link(void **state)
{
    (void)state;
    struct stat status;
    char *name = strdup(in_directory("half-link"));
    assert_int_equal(symlink("half", name), 0);
    struct ending ending = run_child(write_half, name);
    assert_non_null(strstr(ending.errors, "cannot write to"));
    assert_int_equal(lstat(name, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_string_equal(text_of("half"), "");
    free(name);
}

/* A filter that kills on what the heap needs not, and a report does not either. */
static void fail_in_sandbox(void *unused)
{
    (void)unused;
    enum { CALLS = 2 };
    static const uint32_t calls[CALLS] = {SYS_ftruncate, SYS_unlink};
    struct sock_filter filter[2 * CALLS + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (size_t i = 0; i < CALLS; i++) {
        filter[2 * i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        filter[2 * i + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    filter[2 * CALLS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(CHILD_CANNOT_TELL);
    pages_enter_sandbox(); /* as the shim does then (kernel.c) */
    write_to(in_directory("sandboxed"), fail_to_write);
}

static void test_a_failure_in_a_sandbox_ends_nothing(void **state)
{
    (void)state;
    struct ending ending = run_child(fail_in_sandbox, NULL);
    if (ending.exit_status == CHILD_CANNOT_TELL)
        skip();
    assert_int_equal(ending.signal, 0);
    assert_int_equal(ending.exit_status, 0);
    assert_non_null(strstr(ending.errors, "half a report is left there"));
}

static void write_beyond_the_limit(void *unused)
{
    (void)unused;
    struct rlimit limit = {5, 5};
    require(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    write_to(in_directory("limited"), write_head);
    write_to("-", write_head);
}

static void test_a_file_that_may_not_grow_ends_nothing(void **state)
{
    (void)state;
    struct ending ending = run_child(write_beyond_the_limit, NULL);
    assert_int_equal(ending.signal, 0);
    assert_non_null(strstr(ending.errors, "limited\": the disk is full, or the file may not grow"));
    assert_non_null(strstr(ending.errors, "\nschema     "));
    assert_int_equal(count_files("limited"), 0);
}

static int ends_of_fifo[2];

static bool write_when_nobody_reads(int file, bool json)
{
    close(ends_of_fifo[0]);
    return write_head(file, json);
}

static void write_to_a_fifo_without_reader(void *unused)
{
    (void)unused;
    require(mkfifo(in_directory("fifo"), 0600) == 0);
    ends_of_fifo[0] = open(in_directory("fifo"), O_RDONLY | O_NONBLOCK);
    write_to(in_directory("fifo"), write_when_nobody_reads);
}

static void test_a_fifo_that_nobody_reads_ends_nothing(void **state)
{
    (void)state;
    struct ending ending = run_child(write_to_a_fifo_without_reader, NULL);
    assert_int_equal(ending.signal, 0);
    assert_non_null(strstr(ending.errors, "fifo\": nobody reads it any more; ALLOTROPE_TEST "
                                          "names a file, or a pipe that is read to its end\n"));
}

static void test_standard_error_gets_the_table(void **state)
{
    (void)state;
    static char dash[] = "-";
    struct ending ending = run_child(write_to_standard_error, dash);
    assert_int_equal(ending.exit_status, 0);
    assert_memory_equal(ending.errors, "schema     ", 11);
}

static void test_a_failure_is_one_line(void **state)
{
    (void)state;
    struct ending ending = run_child(write_where_nothing_can_be, NULL);
    assert_int_equal(ending.exit_status, 0);
    const char *line = ending.errors;
    const char *const begins[] = {"allotrope: cannot write to \"/nonexistent/a",
                                  "allotrope: cannot", "allotrope: cannot write to \"/tmp/"};
    /* Of a name that would fill the line, its end is shown. */
    const char *const ends[] = {"; ALLOTROPE_TEST names a file that can be created\n",
                                "xxx\"; ALLOTROPE_TEST names a file that can be created\n",
                                ": the disk is full, or the file may not grow; ALLOTROPE_TEST "
                                "names a file with room for it\n"};
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(line, begins[i], strlen(begins[i]));
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        line = end + 1;
        assert_memory_equal(line - strlen(ends[i]), ends[i], strlen(ends[i]));
    }
    assert_string_equal(line, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_that_ends_in_json_asks_for_json),
        cmocka_unit_test(test_the_process_id_stands_in_the_name),
        cmocka_unit_test(test_a_report_goes_to_the_folder_of_the_start),
        cmocka_unit_test(test_a_pattern_is_kept_as_it_is_or_not_at_all),
        cmocka_unit_test(test_a_report_replaces_the_file_that_was_there),
        cmocka_unit_test(test_a_report_that_does_not_fit_leaves_the_older_one),
        cmocka_unit_test(test_a_report_replaces_an_older_one_in_one_step),
        cmocka_unit_test(test_what_is_no_report_of_before_is_written_in_place),
        cmocka_unit_test(test_a_folder_that_takes_no_other_file_is_no_obstacle),
        cmocka_unit_test(test_nothing_and_a_dash_are_standard_error),
        cmocka_unit_test(test_a_file_that_may_not_grow_ends_nothing),
        cmocka_unit_test(test_a_fifo_that_nobody_reads_ends_nothing),
        cmocka_unit_test(test_standard_error_gets_the_table),
        cmocka_unit_test(test_a_failure_is_one_line),
        cmocka_unit_test(test_half_a_report_behind_a_link_leaves_the_link),
        cmocka_unit_test(test_a_failure_in_a_sandbox_ends_nothing),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
