/* SPDX-License-Identifier: MIT
 *
 * test_configuration.c: the grammar of ALLOTROPE, over allocators made up for the purpose.
 */
#include "tests/unit/unit.h"

#include <string.h>

#include "shim/configuration/configuration.h"

static const char *const colours[] = {"red", "green", NULL};
static const struct option_description many[] = {
    {"size", "bytes", 16, 1 << 20, 4096, NULL},
    {"colour", "of the blocks", 0, 1, 1, colours},
    {"least", "of all numbers", 0, UINT64_MAX, 7, NULL},
    {0},
};
static const struct option_description few[] = {{"size", "bytes", 0, 10, 5, NULL}, {0}};

static const struct allocator first = {.name = "first", .preset = "default", .options = many};
static const struct allocator first_old = {.name = "first", .preset = "old", .options = few};
static const struct allocator first_bare = {.name = "first", .preset = "bare"};
static const struct allocator second = {.name = "second", .preset = "default"};
const struct allocator *const allocators[] = {&first, &first_old, &first_bare, &second, NULL};

static struct configuration parse(const char *text)
{
    struct configuration chosen;
    struct message error;
    if (!configuration_parse(text, &chosen, &error))
        fail_msg("%s: %.*s", text, (int)error.length, error.text);
    return chosen;
}

static void test_nothing_is_the_first_allocator_as_it_is(void **state)
{
    (void)state;
    static const char *const texts[] = {NULL, "", "first", "first:default"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct configuration chosen = parse(texts[i]);
        assert_ptr_equal(chosen.allocator, &first);
        assert_int_equal(chosen.values[0], 4096);
        assert_int_equal(chosen.values[1], 1);
        assert_int_equal(chosen.values[2], 7);
    }
}

static void test_presets_stand_anywhere_among_the_options(void **state)
{
    (void)state;
    assert_ptr_equal(parse("second").allocator, &second);
    assert_ptr_equal(parse("first:old").allocator, &first_old);
    assert_int_equal(parse("first:old").values[0], 5);
    assert_int_equal(parse("first:old,size=9").values[0], 9);
    struct configuration chosen = parse("first:size=3,old");
    assert_ptr_equal(chosen.allocator, &first_old);
    assert_int_equal(chosen.values[0], 3);
    chosen = parse("first:colour=red,default,size=1K");
    assert_int_equal(chosen.values[0], 1024);
    assert_int_equal(chosen.values[1], 0);
}

static void test_numbers_have_suffixes_and_limits(void **state)
{
    (void)state;
    assert_int_equal(parse("first:size=16").values[0], 16);
    assert_int_equal(parse("first:size=1024K").values[0], 1 << 20);
    assert_int_equal(parse("first:size=1M").values[0], 1 << 20);
    assert_int_equal(parse("first:least=3G").values[2], 3ULL << 30);
    assert_int_equal(parse("first:least=0").values[2], 0);
    assert_int_equal(parse("first:least=18446744073709551615").values[2], UINT64_MAX);
    assert_int_equal(parse("first:least=0016").values[2], 16);
}

static void assert_refused(const char *text, const char *line)
{
    struct configuration chosen;
    struct message error;
    assert_false(configuration_parse(text, &chosen, &error));
    char said[MESSAGE_BYTES + 1] = {0};
    memcpy(said, error.text, error.length);
    assert_string_equal(said, line);
}

#define PRESETS "; presets are: default, old, bare"
#define OPTIONS "; options are: size=, colour=, least="

static void test_an_unknown_allocator_lists_all(void **state)
{
    (void)state;
    assert_refused("third", "allotrope: unknown allocator \"third\"; valid are: first, second");
    assert_refused("First", "allotrope: unknown allocator \"First\"; valid are: first, second");
    assert_refused("firs", "allotrope: unknown allocator \"firs\"; valid are: first, second");
    assert_refused("first ", "allotrope: unknown allocator \"first \"; valid are: first, second");
    assert_refused(":old", "allotrope: unknown allocator \"\"; valid are: first, second");
    assert_refused("first,old",
                   "allotrope: unknown allocator \"first,old\"; valid are: first, second");
}

static void test_an_unknown_preset_lists_presets_and_options(void **state)
{
    (void)state;
    assert_refused("first:new", "allotrope: unknown preset \"new\" for first" PRESETS OPTIONS);
    assert_refused("first:size", "allotrope: unknown preset \"size\" for first" PRESETS OPTIONS);
    assert_refused("second:old",
                   "allotrope: unknown preset \"old\" for second; presets are: default; it has no "
                   "options");
    assert_refused("first:old,default",
                   "allotrope: second preset \"default\"; only one can be chosen");
    assert_refused("first:old,old", "allotrope: second preset \"old\"; only one can be chosen");
}

static void test_an_unknown_option_lists_those_of_the_preset(void **state)
{
    (void)state;
    assert_refused("first:width=1",
                   "allotrope: unknown option \"width\" for first:default" OPTIONS);
    assert_refused("first:=1", "allotrope: unknown option \"\" for first:default" OPTIONS);
    assert_refused("first:old,colour=red",
                   "allotrope: unknown option \"colour\" for first:old; options are: size=");
    assert_refused("second:size=1",
                   "allotrope: unknown option \"size\" for second:default; it has no options");
}

static void test_a_bad_value_names_the_valid_ones(void **state)
{
    (void)state;
#define RANGE " for size; valid are: 16 to 1048576, perhaps with K, M or G"
    assert_refused("first:size=", "allotrope: bad value \"\"" RANGE);
    assert_refused("first:size=15", "allotrope: bad value \"15\"" RANGE);
    assert_refused("first:size=1048577", "allotrope: bad value \"1048577\"" RANGE);
    assert_refused("first:size=2M", "allotrope: bad value \"2M\"" RANGE);
    assert_refused("first:size=K", "allotrope: bad value \"K\"" RANGE);
    assert_refused("first:size=4k", "allotrope: bad value \"4k\"" RANGE);
    assert_refused("first:size=4KB", "allotrope: bad value \"4KB\"" RANGE);
    assert_refused("first:size=-1", "allotrope: bad value \"-1\"" RANGE);
    assert_refused("first:size= 99", "allotrope: bad value \" 99\"" RANGE);
    assert_refused("first:size=0x40", "allotrope: bad value \"0x40\"" RANGE);
    assert_refused("first:size=20=20", "allotrope: bad value \"20=20\"" RANGE);
    /* 2^64 + 16, and what a suffix would make 2^64 + 16K of. */
    assert_refused("first:size=18446744073709551632",
                   "allotrope: bad value \"18446744073709551632\"" RANGE);
    assert_refused("first:size=18014398509482000K",
                   "allotrope: bad value \"18014398509482000K\"" RANGE);
    assert_refused("first:colour=blue",
                   "allotrope: bad value \"blue\" for colour; valid are: red, green");
    assert_refused("first:colour=1",
                   "allotrope: bad value \"1\" for colour; valid are: red, green");
}

static void test_an_option_is_given_once(void **state)
{
    (void)state;
    assert_refused("first:size=16,size=16", "allotrope: option given twice: \"size\"");
}

static void test_an_empty_option_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"first:", "first:,", "first:old,", "first:,old",
                                        "first:old,,size=16"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char expected[200];
        snprintf(expected, sizeof expected, "allotrope: empty option in \"%s\"" PRESETS OPTIONS,
                 texts[i]);
        assert_refused(texts[i], expected);
    }
}

static void test_nothing_in_a_word_reaches_the_terminal(void **state)
{
    (void)state;
    assert_refused("\033[2J\a\xc3",
                   "allotrope: unknown allocator \"\\x1b[2J\\x07\\xc3\"; valid are: first, second");
}

static void test_a_long_word_leaves_room_for_what_is_valid(void **state)
{
    (void)state;
    char text[2000], expected[200];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    snprintf(expected, sizeof expected,
             "allotrope: unknown allocator \"%.64s\"...; valid are: first, second", text);
    assert_refused(text, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_the_first_allocator_as_it_is),
        cmocka_unit_test(test_presets_stand_anywhere_among_the_options),
        cmocka_unit_test(test_numbers_have_suffixes_and_limits),
        cmocka_unit_test(test_an_unknown_allocator_lists_all),
        cmocka_unit_test(test_an_unknown_preset_lists_presets_and_options),
        cmocka_unit_test(test_an_unknown_option_lists_those_of_the_preset),
        cmocka_unit_test(test_a_bad_value_names_the_valid_ones),
        cmocka_unit_test(test_an_option_is_given_once),
        cmocka_unit_test(test_an_empty_option_is_refused),
        cmocka_unit_test(test_nothing_in_a_word_reaches_the_terminal),
        cmocka_unit_test(test_a_long_word_leaves_room_for_what_is_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
