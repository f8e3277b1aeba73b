/* SPDX-License-Identifier: MIT
 *
 * test_log.c: which file the library's lines go to, whatever the program has done to it.
 *
 * The log is opened once in a process. So each case is tried in a child.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/own_directory.h"
#include "tests/unit/unit.h"

/* Included, not linked: a test asks what descriptor is kept. */
#include "shim/route/log.c"

struct output_pattern observer_destination(const char *value, const char *name)
{
    require(strcmp(name, "ALLOTROPE_LOG") == 0);
    return output_keep(value);
}

/* The path of a file in the test's directory, which is kept until the next call. */
static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* The text of a file. "": there is none, or nothing is in it. */
static const char *text_of(const char *name)
{
    static char text[4096];
    int file = open(path_of(name), O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    require(length >= 0);
    text[length] = '\0';
    close(file);
    return text;
}

static bool has(const char *name, const char *text)
{
    return strcmp(text_of(name), text) == 0;
}

static void start_with(const char *value)
{
    setenv("ALLOTROPE_LOG", value, 1);
    log_start();
}

static void say(const char *text)
{
    message_write(text, strlen(text));
}

/* Says the lines in a child, which has to end well. Returns what went to standard error. */
static const char *errors_of(child_body *body)
{
    static struct ending ending;
    ending = run_child(body, NULL);
    assert_succeeded(&ending);
    return ending.errors;
}

static void say_without_a_log(void *unused)
{
    (void)unused;
    unsetenv("ALLOTROPE_LOG");
    log_start();
    say("one\n");
}

static void close_and_say(void *value)
{
    int standard_error = dup(2);
    start_with(value);
    close(2);
    say("one\n");
    dup2(standard_error, 2);
}

static void test_without_a_log_lines_go_to_standard_error(void **state)
{
    (void)state;
    assert_string_equal(errors_of(say_without_a_log), "one\n");
}

static void test_standard_error_as_a_log_is_that_of_the_start(void **state)
{
    (void)state;
    static char *const values[] = {"", "-"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct ending ending = run_child(close_and_say, values[i]);
        assert_succeeded(&ending);
        assert_string_equal(ending.errors, "one\n");
    }
}

static void say_to_a_file(void *unused)
{
    (void)unused;
    int file = open(path_of("file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    require(write(file, "before\n", 7) == 7);
    start_with(path_of("file"));
    say("one\n");
    say("two\n");
    require(has("file", "before\none\ntwo\n"));
}

static void test_lines_are_appended_to_the_file(void **state)
{
    (void)state;
    assert_string_equal(errors_of(say_to_a_file), "");
}

static void make_a_file(void *unused)
{
    (void)unused;
    struct stat status;
    umask(0);
    start_with(path_of("made"));
    require(stat(path_of("made"), &status) == 0);
    require((status.st_mode & 07777) == 0600);
    require(fcntl(target.file.descriptor, F_GETFD) & FD_CLOEXEC);
}

static void test_a_file_that_is_made_is_its_users_alone(void **state)
{
    (void)state;
    errors_of(make_a_file);
}

/* The name is of the folder of the start. */
static void say_in_another_folder(void *unused)
{
    (void)unused;
    require(chdir(directory) == 0);
    start_with("relative");
    require(chdir("/") == 0);
    close(target.file.descriptor);
    say("one\n");
    require(has("relative", "one\n"));
}

static void test_a_name_is_of_the_folder_of_the_start(void **state)
{
    (void)state;
    assert_string_equal(errors_of(say_in_another_folder), "");
}

static size_t open_files(void)
{
    size_t files = 0;
    DIR *all = opendir("/proc/self/fd");
    require(all);
    while (readdir(all))
        files++;
    closedir(all);
    return files;
}

static void say_after_all_was_closed(void *unused)
{
    (void)unused;
    start_with(path_of("closed"));
    int kept = target.file.descriptor;
    close(kept);
    size_t before = open_files();
    say("one\n");
    require(open_files() == before);
    int other = open(path_of("other"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    require(dup2(other, kept) == kept);
    say("two\n");
    require(has("closed", "one\ntwo\n"));
    require(has("other", ""));
    require(fcntl(kept, F_GETFD) >= 0); /* it is the program's */
}

static void test_what_the_program_has_put_in_its_place_is_not_written_to(void **state)
{
    (void)state;
    assert_string_equal(errors_of(say_after_all_was_closed), "");
}

static const char *name_with(pid_t process)
{
    static char name[64];
    snprintf(name, sizeof name, "process-%d", (int)process);
    return name;
}

/* Returns its number. */
static pid_t say_in_a_child(const char *text, bool can_open)
{
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        if (!can_open)
            setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
        say(text);
        _exit(0);
    }
    require(waitpid(child, &status, 0) == child && status == 0);
    return child;
}

static void say_in_processes(void *unused)
{
    (void)unused;
    start_with(path_of("process-%p"));
    say("one\n");
    pid_t child = say_in_a_child("two\n", true);
    require(has(name_with(child), "two\n"));
    require(has(name_with(getpid()), "one\n"));
}

static void say_in_a_child_that_cannot_open(void *unused)
{
    (void)unused;
    start_with(path_of("process-%p"));
    say_in_a_child("one\n", false);
    require(has(name_with(getpid()), "one\n"));
}

static void test_a_child_has_a_file_of_its_own(void **state)
{
    (void)state;
    assert_string_equal(errors_of(say_in_processes), "");
}

static void test_a_child_that_cannot_open_its_own_has_its_parents(void **state)
{
    (void)state;
    assert_string_equal(errors_of(say_in_a_child_that_cannot_open), "");
}

/* What is kept is used: nothing is opened by its name any more. */
static void share_a_file(void *unused)
{
    (void)unused;
    char moved[512];
    snprintf(moved, sizeof moved, "%s/moved", directory);
    start_with(path_of("shared"));
    say("one\n");
    require(rename(path_of("shared"), moved) == 0);
    say_in_a_child("two\n", true);
    say("three\n");
    require(has("moved", "one\ntwo\nthree\n"));
    require(has("shared", ""));
}

static void test_processes_share_a_file_without_a_number(void **state)
{
    (void)state;
    assert_string_equal(errors_of(share_a_file), "");
}

/* The folder has a "%p" in its name, which is no pattern. */
static void say_in_a_folder_with_a_pattern(void *unused)
{
    (void)unused;
    char folder[64];
    snprintf(folder, sizeof folder, "%s/%%p", directory);
    require(mkdir(folder, 0700) == 0 && chdir(folder) == 0);
    start_with("file");
    say("one\n");
    require(target.opener == 0);
    require(has("%p/file", "one\n"));
    require(unlink("file") == 0 && rmdir(folder) == 0);
}

static void test_a_folder_is_no_pattern(void **state)
{
    (void)state;
    assert_string_equal(errors_of(say_in_a_folder_with_a_pattern), "");
}

static void name_no_folder(void *unused)
{
    (void)unused;
    start_with(path_of("none/file"));
    require(!message_log);
    say("one\n");
}

/* Nobody waits for its reader. */
static void name_a_pipe(void *unused)
{
    (void)unused;
    require(mkfifo(path_of("pipe"), 0600) == 0);
    start_with(path_of("pipe"));
    require(!message_log);
    say("one\n");
}

static void assert_is_unwritable(child_body *body, const char *name)
{
    char expected[1024];
    snprintf(expected, sizeof expected,
             "allotrope: cannot write to \"%s\"; ALLOTROPE_LOG names a file that can be created\n"
             "one\n",
             path_of(name));
    assert_string_equal(errors_of(body), expected);
}

static void test_a_file_that_cannot_be_opened_is_told_and_standard_error_serves(void **state)
{
    (void)state;
    assert_is_unwritable(name_no_folder, "none/file");
    assert_is_unwritable(name_a_pipe, "pipe");
}

static void say_in_a_sandbox(void *unused)
{
    (void)unused;
    start_with(path_of("sandbox"));
    pages_enter_sandbox();
    say("one\n");
    close(target.file.descriptor);
    say("two\n"); /* nothing is opened any more */
    require(has("sandbox", "one\n"));
}

static void test_in_a_sandbox_nothing_is_opened(void **state)
{
    (void)state;
    assert_string_equal(errors_of(say_in_a_sandbox), "two\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_log_lines_go_to_standard_error),
        cmocka_unit_test(test_standard_error_as_a_log_is_that_of_the_start),
        cmocka_unit_test(test_lines_are_appended_to_the_file),
        cmocka_unit_test(test_a_file_that_is_made_is_its_users_alone),
        cmocka_unit_test(test_a_name_is_of_the_folder_of_the_start),
        cmocka_unit_test(test_what_the_program_has_put_in_its_place_is_not_written_to),
        cmocka_unit_test(test_a_child_has_a_file_of_its_own),
        cmocka_unit_test(test_a_child_that_cannot_open_its_own_has_its_parents),
        cmocka_unit_test(test_processes_share_a_file_without_a_number),
        cmocka_unit_test(test_a_folder_is_no_pattern),
        cmocka_unit_test(test_a_file_that_cannot_be_opened_is_told_and_standard_error_serves),
        cmocka_unit_test(test_in_a_sandbox_nothing_is_opened),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
