/* SPDX-License-Identifier: MIT
 *
 * test_json.c: both layouts of a JSON text, its commas and its escapes.
 */
#include "shim/reports/json.h"

#include "tests/shim/reports/report_file.h"

static void write_some(struct json *json)
{
    const void *const addresses[] = {(void *)0, (void *)10, (void *)UINT64_MAX};
    json_begin_object(json, NULL);
    json_string(json, "name", "bsd");
    json_begin_object(json, "options");
    json_end_object(json);
    json_begin_array(json, "none");
    json_end_array(json);
    json_begin_array(json, "points");
    json_begin_object(json, NULL);
    json_number(json, "blocks", UINT64_MAX);
    json_seconds(json, "time", 12000000034);
    json_end_object(json);
    json_number(json, NULL, 0);
    json_string(json, NULL, "x");
    json_end_array(json);
    json_addresses(json, "no_frames", addresses, 0);
    json_addresses(json, "frames", addresses, 3);
    json_end_object(json);
}

static const char *text_of(void (*write)(struct json *json), enum json_layout layout)
{
    struct writer writer;
    struct json json;
    int file = report_file_make();
    writer_begin(&writer, file);
    json_begin(&json, &writer, layout);
    write(&json);
    assert_true(json_end(&json));
    return report_file_text(file);
}

static void test_indented_is_a_member_a_line(void **state)
{
    (void)state;
    assert_string_equal(text_of(write_some, JSON_INDENTED),
                        "{\n"
                        "  \"name\": \"bsd\",\n"
                        "  \"options\": {\n"
                        "  },\n"
                        "  \"none\": [\n"
                        "  ],\n"
                        "  \"points\": [\n"
                        "    {\n"
                        "      \"blocks\": 18446744073709551615,\n"
                        "      \"time\": 12.000000034\n"
                        "    },\n"
                        "    0,\n"
                        "    \"x\"\n"
                        "  ],\n"
                        "  \"no_frames\": [],\n"
                        "  \"frames\": [0, 10, 18446744073709551615]\n"
                        "}\n");
}

static void test_compact_is_one_line(void **state)
{
    (void)state;
    assert_string_equal(text_of(write_some, JSON_COMPACT),
                        "{\"name\":\"bsd\",\"options\":{},\"none\":[],\"points\":[{"
                        "\"blocks\":18446744073709551615,\"time\":12.000000034},0,\"x\"],"
                        "\"no_frames\":[],\"frames\":[0, 10, 18446744073709551615]}\n");
}

static void write_any_byte(struct json *json)
{
    json_begin_object(json, NULL);
    json_string(json, "command", "a\"b\\c\n\t\x01\x7f\xc3\xa4 d");
    json_string(json, "k\"ey", "");
    json_end_object(json);
}

static void test_any_byte_of_a_string_is_valid_json(void **state)
{
    (void)state;
    assert_string_equal(
        text_of(write_any_byte, JSON_INDENTED),
        "{\n  \"command\": \"a\\\"b\\\\c\\u000a\\u0009\\u0001\\u007f\\u00c3\\u00a4 d\",\n"
        "  \"k\\\"ey\": \"\"\n}\n");
}

static void test_a_file_that_takes_no_more_is_reported(void **state)
{
    (void)state;
    for (int is_full = 0; is_full < 2; is_full++) {
        struct writer writer;
        struct json json;
        int file = report_file_that_takes_nothing(is_full);
        writer_begin(&writer, file);
        json_begin(&json, &writer, JSON_COMPACT);
        write_some(&json);
        assert_false(json_end(&json));
        close(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_indented_is_a_member_a_line),
        cmocka_unit_test(test_compact_is_one_line),
        cmocka_unit_test(test_any_byte_of_a_string_is_valid_json),
        cmocka_unit_test(test_a_file_that_takes_no_more_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
