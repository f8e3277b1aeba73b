/* SPDX-License-Identifier: MIT
 *
 * test_functions.c: the names of functions by number.
 */
#include "trace/base/functions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct functions functions;

static int end(void **state)
{
    (void)state;
    functions_free(&functions);
    return 0;
}

static bool add(uint32_t number, const char *name, const char *object)
{
    return functions_add(&functions, number, (struct function){strdup(name), strdup(object)});
}

static void test_functions_are_found_by_number(void **state)
{
    (void)state;
    const char *object;
    assert_true(add(70, "main", "a.out"));
    assert_true(add(0, "start", "ld.so"));
    assert_string_equal(functions_find(&functions, 70, &object), "main");
    assert_string_equal(object, "a.out");
    assert_string_equal(functions_find(&functions, 0, NULL), "start");
}

static void test_functions_without_a_name_are_a_question_mark(void **state)
{
    (void)state;
    const char *object;
    assert_string_equal(functions_find(&functions, 3, &object), "?");
    assert_string_equal(object, "?");
    assert_true(add(4, "f", "a.out"));
    assert_string_equal(functions_find(&functions, 3, &object), "?");
    assert_string_equal(object, "?");
    assert_string_equal(functions_find(&functions, UINT32_MAX, NULL), "?");
}

static void test_functions_keep_a_name_that_was_handed_out(void **state)
{
    (void)state;
    assert_true(add(1, "first", "a.out"));
    const char *name = functions_find(&functions, 1, NULL);
    assert_true(add(1, "second", "b.so"));
    assert_ptr_equal(functions_find(&functions, 1, NULL), name);
    assert_string_equal(name, "first");
}

static void test_functions_refuse_a_missing_string(void **state)
{
    (void)state;
    assert_false(functions_add(&functions, 1, (struct function){NULL, strdup("a.out")}));
    assert_false(functions_add(&functions, 1, (struct function){strdup("f"), NULL}));
    assert_string_equal(functions_find(&functions, 1, NULL), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_functions_are_found_by_number, end),
        cmocka_unit_test_teardown(test_functions_without_a_name_are_a_question_mark, end),
        cmocka_unit_test_teardown(test_functions_keep_a_name_that_was_handed_out, end),
        cmocka_unit_test_teardown(test_functions_refuse_a_missing_string, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
