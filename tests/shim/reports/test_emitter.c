/* SPDX-License-Identifier: MIT
 *
 * test_emitter.c: the table and the JSON that one set of calls gives.
 */
#include "shim/reports/emitter.h"

#include "tests/shim/reports/report_file.h"

static void emit_some(struct emitter *emitter)
{
    emit_begin_object(emitter, NULL);
    emit_string(emitter, "name", "bsd");
    emit_begin_object(emitter, "options");
    emit_end_object(emitter);
    emit_begin_object(emitter, "peak");
    emit_number(emitter, "blocks", UINT64_MAX);
    emit_seconds(emitter, "time", 12000000034);
    emit_begin_object(emitter, "waste");
    emit_number(emitter, "header", 0);
    emit_end_object(emitter);
    emit_end_object(emitter);
    emit_number(emitter, "a_key_that_is_longer_than_its_column", 1);
    emit_end_object(emitter);
}

static void test_a_table_is_indented_lines(void **state)
{
    (void)state;
    struct emitter emitter;
    int file = report_file_make();
    emitter_begin(&emitter, file, false);
    emit_some(&emitter);
    assert_true(emitter_end(&emitter));
    const char *written = report_file_text(file);
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
    int file = report_file_make();
    emitter_begin(&emitter, file, true);
    emit_some(&emitter);
    assert_true(emitter_end(&emitter));
    const char *written = report_file_text(file);
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
    int file = report_file_make();
    emitter_begin(&emitter, file, true);
    emit_begin_object(&emitter, NULL);
    emit_string(&emitter, "command", "a\"b\\c\n\t\x01\x7f\xc3\xa4 d");
    emit_end_object(&emitter);
    assert_true(emitter_end(&emitter));
    const char *written = report_file_text(file);
    assert_string_equal(
        written,
        "{\n  \"command\": \"a\\\"b\\\\c\\u000a\\u0009\\u0001\\u007f\\u00c3\\u00a4 d\"\n}\n");
}

static void test_more_than_the_buffer_is_written_whole(void **state)
{
    (void)state;
    struct emitter emitter;
    int file = report_file_make();
    emitter_begin(&emitter, file, false);
    emit_begin_object(&emitter, NULL);
    for (uint64_t i = 0; i < 10000; i++)
        emit_number(&emitter, "n", i);
    emit_end_object(&emitter);
    assert_true(emitter_end(&emitter));
    const char *line = report_file_text(file);
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
    for (int is_full = 0; is_full < 2; is_full++) {
        struct emitter emitter;
        int file = report_file_that_takes_nothing(is_full);
        emitter_begin(&emitter, file, true);
        emit_some(&emitter);
        assert_false(emitter_end(&emitter));
        close(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_table_is_indented_lines),
        cmocka_unit_test(test_json_has_the_same_members),
        cmocka_unit_test(test_any_byte_of_a_name_is_valid_json),
        cmocka_unit_test(test_more_than_the_buffer_is_written_whole),
        cmocka_unit_test(test_a_file_that_takes_no_more_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
