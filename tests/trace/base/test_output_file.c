/* SPDX-License-Identifier: MIT
 *
 * test_output_file.c: what becomes of the file that stood at a recording's name.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/own_directory.h"
#include "trace/base/output_file.h"

/* A path in the test's directory, in storage of its own until the next call but one. */
static const char *at(const char *name)
{
    static char paths[2][512];
    static unsigned turn;
    char *path = paths[turn++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static const char *text_of(const char *name)
{
    static char text[64];
    int fd = open(at(name), O_RDONLY);
    if (fd < 0)
        return NULL;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    return text;
}

static void put(const char *name, const char *text)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

struct recorded {
    const char *name;
    const char *text;
    enum output_worth worth;
};

/* Writes the text to the file, and ends it as of that worth. */
static void record(void *data)
{
    const struct recorded *recorded = data;
    struct output_file file;
    require(output_file_open(&file, at(recorded->name)) == 0);
    size_t length = strlen(recorded->text);
    require(write(file.fd, recorded->text, length) == (ssize_t)length);
    file.worth = recorded->worth;
    require(output_file_close(&file) == 0);
}

/* Does so in a child; returns what it said. */
static const char *said_by(const char *name, const char *text, enum output_worth worth)
{
    static struct ending ending;
    struct recorded recorded = {name, text, worth};
    ending = run_child(record, &recorded);
    assert_int_equal(ending.exit_status, 0);
    return ending.errors;
}

static void test_a_whole_recording_replaces_the_older_one_in_one_step(void **state)
{
    (void)state;
    struct stat status;
    char seen[8] = "";
    put("whole", "older");
    chmod(at("whole"), 0640);
    int older = open(at("whole"), O_RDONLY);
    assert_string_equal(said_by("whole", "new", OUTPUT_WHOLE), "");
    assert_string_equal(text_of("whole"), "new");
    assert_null(text_of("whole.part"));
    assert_int_equal(stat(at("whole"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    assert_int_equal(read(older, seen, sizeof seen - 1), 5);
    assert_string_equal(seen, "older");
    close(older);
}

static void test_a_cut_recording_stays_beside_the_older_one(void **state)
{
    (void)state;
    put("cut", "older");
    const char *said = said_by("cut", "first", OUTPUT_CUT);
    assert_non_null(strstr(said, "cut is as it was; the recording, as far as it goes, is in"));
    assert_non_null(strstr(said, "cut.part\n"));
    said = said_by("cut", "second", OUTPUT_CUT);
    assert_non_null(strstr(said, "cut.part.2\n"));
    assert_string_equal(text_of("cut"), "older");
    assert_string_equal(text_of("cut.part"), "first");
    assert_string_equal(text_of("cut.part.2"), "second");
}

static void test_a_cut_recording_without_an_older_one_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(said_by("alone", "half", OUTPUT_CUT), "");
    assert_string_equal(text_of("alone"), "half");
    put("emptied", "");
    assert_string_equal(said_by("emptied", "half", OUTPUT_CUT), "");
    assert_string_equal(text_of("emptied"), "half");
}

static void test_what_did_not_begin_leaves_no_file(void **state)
{
    (void)state;
    put("stays", "older");
    assert_string_equal(said_by("stays", "head", OUTPUT_NOTHING), "");
    assert_string_equal(said_by("stays", "", OUTPUT_CUT), "");
    assert_string_equal(text_of("stays"), "older");
    assert_null(text_of("stays.part"));
    assert_string_equal(said_by("never", "head", OUTPUT_NOTHING), "");
    assert_string_equal(said_by("never", "", OUTPUT_CUT), "");
    assert_null(text_of("never"));
}

static void test_a_link_stays_and_what_it_names_is_replaced(void **state)
{
    (void)state;
    struct stat status;
    put("target", "older");
    assert_int_equal(symlink("target", at("link")), 0);
    assert_string_equal(said_by("link", "new", OUTPUT_WHOLE), "");
    assert_int_equal(lstat(at("link"), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_string_equal(text_of("target"), "new");
}

static void test_a_device_is_written_in_place(void **state)
{
    (void)state;
    struct stat status;
    struct output_file file;
    assert_int_equal(output_file_open(&file, "/dev/null"), 0);
    assert_null(file.part);
    assert_int_equal(output_file_close(&file), 0);
    assert_int_equal(stat("/dev/null", &status), 0);
}

static void record_where_no_other_file_may_be(void *unused)
{
    (void)unused;
    struct recorded recorded = {"mine", "new", OUTPUT_WHOLE};
    if (setgid(65534) < 0 || setuid(65534) < 0)
        _exit(CHILD_CANNOT_TELL);
    record(&recorded);
}

static void test_a_folder_that_takes_no_other_file_is_no_obstacle(void **state)
{
    (void)state;
    put("mine", "older");
    chmod(at("mine"), 0666);
    chmod(directory, 0755);
    struct ending ending = run_child(record_where_no_other_file_may_be, NULL);
    if (ending.exit_status == CHILD_CANNOT_TELL)
        skip();
    assert_int_equal(ending.exit_status, 0);
    assert_string_equal(text_of("mine"), "new");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_whole_recording_replaces_the_older_one_in_one_step),
        cmocka_unit_test(test_a_cut_recording_stays_beside_the_older_one),
        cmocka_unit_test(test_a_cut_recording_without_an_older_one_has_its_name),
        cmocka_unit_test(test_what_did_not_begin_leaves_no_file),
        cmocka_unit_test(test_a_link_stays_and_what_it_names_is_replaced),
        cmocka_unit_test(test_a_device_is_written_in_place),
        cmocka_unit_test(test_a_folder_that_takes_no_other_file_is_no_obstacle),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
