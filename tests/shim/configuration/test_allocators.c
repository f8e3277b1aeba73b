/* SPDX-License-Identifier: MIT
 *
 * test_allocators.c: the tables of options of every allocator and preset there is.
 */
#include "tests/unit/unit.h"

#include <string.h>

#include "alloc/policies/gnu.h"
#include "alloc/policies/knuth.h"
#include "shim/configuration/configuration.h"

typedef void row_check(const struct allocator *allocator, const struct option_description *option);

static void each_row(row_check *check_row)
{
    for (size_t i = 0; allocators[i]; i++)
        for (size_t j = 0; allocators[i]->options && allocators[i]->options[j].key[0]; j++)
            check_row(allocators[i], &allocators[i]->options[j]);
}

static size_t member_bytes(const struct option_description *option)
{
    return option->kind == OPTION_NUMBER    ? sizeof(uint64_t)
           : option->kind == OPTION_KEYWORD ? sizeof(unsigned)
                                            : sizeof(bool);
}

static void check_initial(const struct allocator *allocator,
                          const struct option_description *option)
{
    uint64_t keywords = 0;
    while (keywords < MOST_KEYWORDS && option->keywords[keywords][0])
        keywords++;
    assert_true(keywords > 0
                    ? option->initial < keywords
                    : option->initial >= option->minimum && option->initial <= option->maximum);
    assert_int_equal(keywords == 0, option->kind == OPTION_NUMBER);
    struct configuration chosen;
    struct message error;
    char spec[64];
    snprintf(spec, sizeof spec, "%s:%s", allocator->name, allocator->preset);
    assert_true(configuration_parse(spec, &chosen, &error));
    assert_int_equal(option_value(option, chosen.options), option->initial);
}

static void test_what_holds_when_nothing_is_said_is_a_valid_value(void **state)
{
    (void)state;
    each_row(check_initial);
}

/* Neither a key nor a byte of the struct. */
static void check_shares_nothing(const struct allocator *allocator,
                                 const struct option_description *option)
{
    assert_true(option->offset + member_bytes(option) <= OPTIONS_BYTES);
    for (const struct option_description *other = allocator->options; other < option; other++) {
        assert_string_not_equal(other->key, option->key);
        assert_true(other->offset + member_bytes(other) <= option->offset ||
                    option->offset + member_bytes(option) <= other->offset);
    }
}

static void test_rows_of_a_table_share_nothing(void **state)
{
    (void)state;
    each_row(check_shares_nothing);
}

static void check_fixed_is_last(const struct allocator *allocator,
                                const struct option_description *option)
{
    size_t row = (size_t)(option - allocator->options);
    assert_int_equal(option->is_fixed, row >= option_count(allocator));
}

static void test_what_users_cannot_choose_comes_last(void **state)
{
    (void)state;
    each_row(check_fixed_is_last);
}

static uint64_t value(const char *spec, const char *key)
{
    struct configuration chosen;
    struct message error;
    assert_true(configuration_parse(spec, &chosen, &error));
    const struct option_description *option = chosen.allocator->options;
    while (option->key[0] && strcmp(option->key, key) != 0)
        option++;
    assert_true(option->key[0]);
    return option_value(option, chosen.options);
}

static void test_presets_of_a_heap_differ_in_what_is_not_said(void **state)
{
    (void)state;
    assert_int_equal(value("knuth", "search"), KNUTH_SEARCH_BINNED);
    assert_int_equal(value("knuth:classic", "search"), KNUTH_SEARCH_PUBLISHED);
    assert_int_equal(value("knuth", "end"), 1);
    assert_int_equal(value("knuth:classic", "end"), 0);
    assert_int_equal(value("cartesian", "least"), 32);
    assert_int_equal(value("cartesian:classic", "least"), 16);
    assert_int_equal(value("gnu", "clusters"), GNU_CLUSTERS_BINNED);
    assert_int_equal(value("gnu:classic", "clusters"), GNU_CLUSTERS_PUBLISHED);
    assert_int_equal(value("gnu", "parts"), true);
    assert_int_equal(value("gnu:classic", "parts"), false);
    assert_int_equal(value("gnu", "least_log"), 5);
    assert_int_equal(value("gnu:classic", "least_log"), 4);
    assert_int_equal(value("gnu", "final_free_pages"), 256);
    assert_int_equal(value("gnu:classic", "final_free_pages"), 8);
    assert_int_equal(value("gc:retain=0,stack=1M", "retain"), 0);
    assert_int_equal(value("gc:retain=0,stack=1M", "stack"), 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_holds_when_nothing_is_said_is_a_valid_value),
        cmocka_unit_test(test_rows_of_a_table_share_nothing),
        cmocka_unit_test(test_what_users_cannot_choose_comes_last),
        cmocka_unit_test(test_presets_of_a_heap_differ_in_what_is_not_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
