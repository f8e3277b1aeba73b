/* SPDX-License-Identifier: MIT
 *
 * test_json.c: the text that calls of the JSON writer give.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>

#include "trace/base/json.h"

/* Compares what was written, and frees it. */
static void assert_text(struct json_memory *memory, const char *expected)
{
    char *text = json_memory_end(memory);
    assert_string_equal(text, expected);
    free(text);
}

static void test_json_puts_commas_between_elements_alone(void **state)
{
    (void)state;
    struct json_memory memory;
    assert_true(json_memory_begin(&memory));
    struct json *json = &memory.json;
    json_open(json, NULL);
    json_open(json, "empty");
    json_close(json);
    json_open_list(json, "list");
    json_number(json, NULL, 1);
    json_open(json, NULL);
    json_bool(json, "yes", true);
    json_bool(json, "no", false);
    json_close(json);
    json_open_list(json, NULL);
    json_close_list(json);
    json_close_list(json);
    json_null(json, "nothing");
    json_close(json);
    assert_text(&memory, "{\"empty\": {}, \"list\": [1, {\"yes\": true, \"no\": false}, []], "
                         "\"nothing\": null}");
}

static void test_json_breaks_lines_where_asked(void **state)
{
    (void)state;
    struct json_memory memory;
    assert_true(json_memory_begin(&memory));
    struct json *json = &memory.json;
    json_open(json, NULL);
    json_new_line(json);
    json_open_list(json, "list");
    for (uint64_t i = 0; i < 2; i++) {
        json_new_line(json);
        json_number(json, NULL, i);
    }
    json_new_line(json);
    json_close_list(json);
    json_new_line(json);
    json_number(json, "after", 2);
    json_close(json);
    assert_text(&memory, "{\n\"list\": [\n0,\n1\n],\n\"after\": 2}");
}

static void test_json_writes_numbers_whole(void **state)
{
    (void)state;
    struct json_memory memory;
    assert_true(json_memory_begin(&memory));
    struct json *json = &memory.json;
    json_open_list(json, NULL);
    json_number(json, NULL, UINT64_MAX);
    json_integer(json, NULL, INT64_MIN);
    json_real(json, NULL, 1.0 / 3);
    json_real(json, NULL, 0);
    json_seconds(json, NULL, 12.5);
    json_close_list(json);
    assert_text(&memory, "[18446744073709551615, -9223372036854775808, 0.333333333, 0, 12.500000]");
}

static void test_json_escapes_text_and_bytes(void **state)
{
    (void)state;
    struct json_memory memory;
    assert_true(json_memory_begin(&memory));
    struct json *json = &memory.json;
    json_open(json, NULL);
    json_text(json, "text", "a\"\\\n\xc3\xa9");
    json_bytes(json, "bytes", "a\"\\\n\xc3\xa9~\x7f");
    json_text(json, "\"", NULL);
    json_bytes(json, "no bytes", NULL);
    json_close(json);
    assert_text(&memory, "{\"text\": \"a\\\"\\\\\\u000a\xc3\xa9\", "
                         "\"bytes\": \"a\\u0022\\u005c\\u000a\\u00c3\\u00a9~\\u007f\", "
                         "\"\\\"\": null, \"no bytes\": null}");
}

static void test_json_goes_on_with_a_given_object(void **state)
{
    (void)state;
    static const char *const given[] = {"{}", "{\"a\": 1}"};
    static const char *const expected[] = {"{\"b\": [null, {}]}", "{\"a\": 1, \"b\": [null, {}]}"};
    for (int i = 0; i < 2; i++) {
        struct json_memory memory;
        assert_true(json_memory_begin(&memory));
        struct json *json = &memory.json;
        json_open_with(json, NULL, given[i]);
        json_open_list(json, "b");
        json_raw(json, NULL, "");
        json_raw(json, NULL, "{}");
        json_close_list(json);
        json_close(json);
        assert_text(&memory, expected[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_puts_commas_between_elements_alone),
        cmocka_unit_test(test_json_breaks_lines_where_asked),
        cmocka_unit_test(test_json_writes_numbers_whole),
        cmocka_unit_test(test_json_escapes_text_and_bytes),
        cmocka_unit_test(test_json_goes_on_with_a_given_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
