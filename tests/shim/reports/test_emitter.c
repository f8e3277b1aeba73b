/* SPDX-License-Identifier: MIT
 *
 * test_emitter.c: the table and the JSON that one set of calls gives.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "shim/reports/emitter.h"

static char written[1 << 20];

static int make_file(void)
{
    char name[] = "/tmp/allotrope-test-XXXXXX";
    int file = mkstemp(name);
    assert_true(file >= 0);
    unlink(name);
    return file;
}

static void read_back(int file)
{
    ssize_t length = pread(file, written, sizeof written - 1, 0);
    assert_true(length >= 0);
    written[length] = '\0';
    close(file);
}

static void emit_some(struct emitter *emitter)
{
    emit_open(emitter, NULL);
    emit_text(emitter, "name", "bsd");
    emit_open(emitter, "options");
    emit_close(emitter);
    emit_open(emitter, "peak");
    emit_number(emitter, "blocks", UINT64_MAX);
    emit_seconds(emitter, "time", 12000000034);
    emit_open(emitter, "waste");
    emit_number(emitter, "header", 0);
    emit_close(emitter);
    emit_close(emitter);
    emit_number(emitter, "a_key_that_is_longer_than_its_column", 1);
    emit_close(emitter);
}

static void test_a_table_is_indented_lines(void **state)
{
    (void)state;
    struct emitter emitter;
    int file = make_file();
    emitter_begin(&emitter, file, false);
    emit_some(&emitter);
    assert_true(emitter_end(&emitter));
    read_back(file);
    assert_string_equal(written, "name                              bsd\n"
                                 "options\n"
                                 "peak\n"
                                 "  blocks                          18446744073709551615\n"
                                 "  time                            12.000000034\n"
                                 "  waste\n"
                                 "    header                        0\n"
                                 "a_key_that_is_longer_than_its_column 1\n");
}

static void test_json_has_the_same_members(void **state)
{
    (void)state;
    struct emitter emitter;
    int file = make_file();
    emitter_begin(&emitter, file, true);
    emit_some(&emitter);
    assert_true(emitter_end(&emitter));
    read_back(file);
    assert_string_equal(written, "{\n"
                                 "  \"name\": \"bsd\",\n"
                                 "  \"options\": {\n"
                                 "  },\n"
                                 "  \"peak\": {\n"
                                 "    \"blocks\": 18446744073709551615,\n"
                                 "    \"time\": 12.000000034,\n"
                                 "    \"waste\": {\n"
                                 "      \"header\": 0\n"
                                 "    }\n"
                                 "  },\n"
                                 "  \"a_key_that_is_longer_than_its_column\": 1\n"
                                 "}\n");
}

static void test_any_byte_of_a_name_is_valid_json(void **state)
{
    (void)state;
    struct emitter emitter;
    int file = make_file();
    emitter_begin(&emitter, file, true);
    emit_open(&emitter, NULL);
    emit_text(&emitter, "command", "a\"b\\c\n\t\x01\x7f\xc3\xa4 d");
    emit_close(&emitter);
    assert_true(emitter_end(&emitter));
    read_back(file);
    assert_string_equal(
        written,
        "{\n  \"command\": \"a\\\"b\\\\c\\u000a\\u0009\\u0001\\u007f\\u00c3\\u00a4 d\"\n}\n");
}

static void test_more_than_the_buffer_is_written_whole(void **state)
{
    (void)state;
    struct emitter emitter;
    int file = make_file();
    emitter_begin(&emitter, file, false);
    emit_open(&emitter, NULL);
    for (uint64_t i = 0; i < 10000; i++)
        emit_number(&emitter, "n", i);
    emit_close(&emitter);
    assert_true(emitter_end(&emitter));
    read_back(file);
    const char *line = written;
    for (unsigned i = 0; i < 10000; i++) {
        unsigned number;
        assert_int_equal(sscanf(line, "n %u\n", &number), 1);
        assert_int_equal(number, i);
        line = strchr(line, '\n') + 1;
    }
    assert_string_equal(line, "");
}

static void test_a_file_that_takes_no_more_is_reported(void **state)
{
    (void)state;
    static const char *const names[] = {"/dev/full", "/proc/version"};
    for (int i = 0; i < 2; i++) {
        struct emitter emitter;
        int file = open(names[i], i == 0 ? O_WRONLY : O_RDONLY);
        if (file < 0)
            skip();
        emitter_begin(&emitter, file, true);
        emit_some(&emitter);
        assert_false(emitter_end(&emitter));
        close(file);
    }
}

static void test_addresses_stand_in_one_line(void **state)
{
    (void)state;
    const void *const list[] = {(void *)0, (void *)10, (void *)UINT64_MAX};
    struct emitter emitter;
    int file = make_file();
    emitter_begin(&emitter, file, true);
    emit_open(&emitter, NULL);
    emit_addresses(&emitter, "none", list, 0);
    emit_addresses(&emitter, "some", list, 3);
    emit_close(&emitter);
    assert_true(emitter_end(&emitter));
    read_back(file);
    assert_string_equal(written, "{\n  \"none\": [],\n"
                                 "  \"some\": [0, 10, 18446744073709551615]\n}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_table_is_indented_lines),
        cmocka_unit_test(test_addresses_stand_in_one_line),
        cmocka_unit_test(test_json_has_the_same_members),
        cmocka_unit_test(test_any_byte_of_a_name_is_valid_json),
        cmocka_unit_test(test_more_than_the_buffer_is_written_whole),
        cmocka_unit_test(test_a_file_that_takes_no_more_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
