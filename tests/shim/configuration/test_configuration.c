/* SPDX-License-Identifier: MIT
 *
 * test_configuration.c: the grammar of ALLOTROPE, over allocators made up for the purpose.
 */
#include "tests/unit/unit.h"

#include <string.h>

#include "shim/configuration/configuration.h"

enum colour { RED, GREEN };

/* A preset of two parts. */
struct paint_options {
    uint64_t size;
    enum colour colour;
};
struct first_options {
    bool before;
    struct paint_options paint;
    uint64_t least;
};
struct old_options {
    uint64_t size;
    enum colour colour;
};
struct bare_options {
    bool fast, slow;
};

#define PAINT_OPTIONS(at)                                                        \
    {"size",                                                                     \
     "bytes",                                                                    \
     NUMBER_IN(at, struct paint_options, size),                                  \
     .minimum = 16,                                                              \
     .maximum = 1 << 20,                                                         \
     .initial = 4096},                                                           \
    {                                                                            \
        "colour", "of the blocks", KEYWORD_IN(at, struct paint_options, colour), \
            .keywords = {[RED] = "red", [GREEN] = "green"}, .initial = GREEN     \
    }

static const struct option_description many[] = {
    PAINT_OPTIONS(offsetof(struct first_options, paint)),
    {"least", "of all numbers", NUMBER_IN(0, struct first_options, least), .maximum = UINT64_MAX,
     .initial = 7},
    {.key = ""},
};
static const struct option_description few[] = {
    {"size", "bytes", NUMBER_IN(0, struct old_options, size), .maximum = 10, .initial = 5},
    {"colour", "of the blocks", KEYWORD_IN(0, struct old_options, colour),
     .keywords = {[RED] = "red", [GREEN] = "green"}, .initial = GREEN, .is_fixed = true},
    {.key = ""},
};
static const struct option_description switches[] = {
    {"fast", "or not", SWITCH_IN(0, struct bare_options, fast), .initial = false},
    {"slow", "or not", SWITCH_IN(0, struct bare_options, slow), .initial = true},
    {.key = ""},
};

static bool fast_and_slow(const void *options, struct message *why)
{
    const struct bare_options *chosen = options;
    if (!chosen->fast || !chosen->slow)
        return false;
    message_text(why, "fast=on and slow=on");
    return true;
}

static const struct allocator first = {.name = "first", .preset = "default", .options = many};
static const struct allocator first_old = {.name = "first", .preset = "old", .options = few};
static const struct allocator first_bare = {
    .name = "first", .preset = "bare", .options = switches, .conflict = fast_and_slow};
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

static void parse_into(const char *text, const struct allocator *allocator, void *options,
                       size_t bytes)
{
    struct configuration chosen = parse(text);
    assert_ptr_equal(chosen.allocator, allocator);
    memcpy(options, chosen.options, bytes);
}

static struct first_options first_of(const char *text)
{
    struct first_options options;
    parse_into(text, &first, &options, sizeof options);
    return options;
}

static struct old_options old_of(const char *text)
{
    struct old_options options;
    parse_into(text, &first_old, &options, sizeof options);
    return options;
}

static struct bare_options bare_of(const char *text)
{
    struct bare_options options;
    parse_into(text, &first_bare, &options, sizeof options);
    return options;
}

static void test_nothing_is_the_first_allocator_as_it_is(void **state)
{
    (void)state;
    static const char *const texts[] = {NULL, "", "first", "first:default"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct first_options chosen = first_of(texts[i]);
        assert_int_equal(chosen.paint.size, 4096);
        assert_int_equal(chosen.paint.colour, GREEN);
        assert_int_equal(chosen.least, 7);
    }
}

static void test_presets_stand_anywhere_among_the_options(void **state)
{
    (void)state;
    assert_ptr_equal(parse("second").allocator, &second);
    assert_int_equal(old_of("first:old").size, 5);
    assert_int_equal(old_of("first:old,size=9").size, 9);
    assert_int_equal(old_of("first:size=3,old").size, 3);
    struct first_options chosen = first_of("first:colour=red,default,size=1K");
    assert_int_equal(chosen.paint.size, 1024);
    assert_int_equal(chosen.paint.colour, RED);
}

static void test_numbers_have_suffixes_and_limits(void **state)
{
    (void)state;
    assert_int_equal(first_of("first:size=16").paint.size, 16);
    assert_int_equal(first_of("first:size=1024K").paint.size, 1 << 20);
    assert_int_equal(first_of("first:size=1M").paint.size, 1 << 20);
    assert_int_equal(first_of("first:least=3G").least, 3ULL << 30);
    assert_int_equal(first_of("first:least=0").least, 0);
    assert_int_equal(first_of("first:least=18446744073709551615").least, UINT64_MAX);
    assert_int_equal(first_of("first:least=0016").least, 16);
}

static void test_switches_are_off_or_on(void **state)
{
    (void)state;
    assert_false(bare_of("first:bare").fast);
    assert_true(bare_of("first:bare").slow);
    struct bare_options chosen = bare_of("first:bare,fast=on,slow=off");
    assert_true(chosen.fast);
    assert_false(chosen.slow);
}

static void test_an_option_changes_its_own_member_alone(void **state)
{
    (void)state;
    struct first_options chosen = first_of("first:size=1M");
    assert_int_equal(chosen.paint.size, 1 << 20);
    assert_int_equal(chosen.paint.colour, GREEN);
    assert_int_equal(chosen.least, 7);
    chosen = first_of("first:colour=red");
    assert_int_equal(chosen.paint.size, 4096);
    assert_int_equal(chosen.paint.colour, RED);
    assert_int_equal(chosen.least, 7);
    chosen = first_of("first:least=18446744073709551615");
    assert_int_equal(chosen.paint.size, 4096);
    assert_int_equal(chosen.paint.colour, GREEN);
    assert_false(chosen.before);
}

/* What an earlier choice left behind does not show. */
static void test_what_is_not_said_comes_from_the_table(void **state)
{
    (void)state;
    struct configuration chosen;
    struct message error;
    struct first_options options;
    memset(&chosen, 0xff, sizeof chosen);
    assert_true(configuration_parse("first:colour=red", &chosen, &error));
    memcpy(&options, chosen.options, sizeof options);
    assert_int_equal(options.paint.size, many[0].initial);
    assert_int_equal(options.least, many[2].initial);
    assert_false(options.before);
}

static void test_a_fixed_option_is_set_and_not_offered(void **state)
{
    (void)state;
    assert_int_equal(option_count(&first), 3);
    assert_int_equal(option_count(&first_old), 1);
    assert_int_equal(option_count(&second), 0);
    assert_int_equal(old_of("first:old").colour, GREEN);
}

static void test_a_value_is_read_back_as_it_was_set(void **state)
{
    (void)state;
    struct first_options options = {0};
    option_set(&many[0], &options, 1 << 20);
    option_set(&many[1], &options, GREEN);
    option_set(&many[2], &options, UINT64_MAX);
    assert_int_equal(options.paint.size, 1 << 20);
    assert_int_equal(options.paint.colour, GREEN);
    assert_int_equal(option_value(&many[0], &options), 1 << 20);
    assert_int_equal(option_value(&many[1], &options), GREEN);
    assert_int_equal(option_value(&many[2], &options), UINT64_MAX);
    struct bare_options bare = {.fast = true};
    assert_int_equal(option_value(&switches[0], &bare), true);
    assert_int_equal(option_value(&switches[1], &bare), false);
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

static void test_an_unknown_option_lists_options_and_presets(void **state)
{
    (void)state;
    assert_refused("first:width=1",
                   "allotrope: unknown option \"width\" for first:default" OPTIONS PRESETS);
    assert_refused("first:=1", "allotrope: unknown option \"\" for first:default" OPTIONS PRESETS);
    assert_refused(
        "first:old,colour=red",
        "allotrope: unknown option \"colour\" for first:old; options are: size=" PRESETS);
    assert_refused("second:size=1",
                   "allotrope: unknown option \"size\" for second:default; it has no options"
                   "; presets are: default");
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

static void test_the_ends_of_a_range_belong_to_it(void **state)
{
    (void)state;
    assert_int_equal(first_of("first:size=16").paint.size, 16);
    assert_int_equal(first_of("first:size=1048576").paint.size, 1048576);
    assert_int_equal(old_of("first:old,size=0").size, 0);
    assert_int_equal(old_of("first:old,size=10").size, 10);
    assert_refused("first:old,size=11", "allotrope: bad value \"11\" for size; valid are: 0 to "
                                        "10, perhaps with K, M or G");
    assert_refused("first:bare,fast=1", "allotrope: bad value \"1\" for fast; valid are: off, on");
}

static void test_options_that_conflict_are_refused_with_the_reason(void **state)
{
    (void)state;
    assert_refused("first:bare,fast=on",
                   "allotrope: contradiction in \"first:bare,fast=on\": fast=on and slow=on");
    assert_true(bare_of("first:fast=on,slow=off,bare").fast);
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
        cmocka_unit_test(test_switches_are_off_or_on),
        cmocka_unit_test(test_an_option_changes_its_own_member_alone),
        cmocka_unit_test(test_what_is_not_said_comes_from_the_table),
        cmocka_unit_test(test_a_fixed_option_is_set_and_not_offered),
        cmocka_unit_test(test_a_value_is_read_back_as_it_was_set),
        cmocka_unit_test(test_an_unknown_allocator_lists_all),
        cmocka_unit_test(test_an_unknown_preset_lists_presets_and_options),
        cmocka_unit_test(test_an_unknown_option_lists_options_and_presets),
        cmocka_unit_test(test_a_bad_value_names_the_valid_ones),
        cmocka_unit_test(test_the_ends_of_a_range_belong_to_it),
        cmocka_unit_test(test_options_that_conflict_are_refused_with_the_reason),
        cmocka_unit_test(test_an_option_is_given_once),
        cmocka_unit_test(test_an_empty_option_is_refused),
        cmocka_unit_test(test_nothing_in_a_word_reaches_the_terminal),
        cmocka_unit_test(test_a_long_word_leaves_room_for_what_is_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
