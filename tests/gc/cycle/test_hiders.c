/* SPDX-License-Identifier: MIT
 *
 * test_hiders.c: which code is a known hider's, and for how many looks all live blocks are pinned.
 */
#include "tests/unit/unit.h"

#include <string.h>

/* Included, not linked: its state is made anew for each test. */
#include "gc/cycle/hiders.c"

/* A known function of this program, so that its file is a hider. The others are in no file. */
const char PL_initialise[64] = "";

enum { START = 0x10000, BYTES = 0x1000 };

static struct mapping code_at(uintptr_t start, const char *name)
{
    return (struct mapping){.start = start,
                            .end = start + BYTES,
                            .readable = true,
                            .executable = true,
                            .name = name,
                            .name_length = strlen(name)};
}

static bool look_at(struct mapping mapping)
{
    return hiders_look(&mapping, 1);
}

static bool is_found(struct mapping mapping)
{
    look_at(mapping);
    return hiders_count() == 1;
}

static int start(void **state)
{
    (void)state;
    hiders.count = 0;
    hiders.looks_left = 0;
    return 0;
}

static void test_a_hider_is_known_by_the_name_of_its_file(void **state)
{
    (void)state;
    static const char *const known[] = {
        "/usr/lib/libfontconfig.so.1",
        "/usr/lib/libfontconfig.so.1.12.0",
        "/opt/venv/lib/fonts.libs/libfontconfig-8f5dd3c0.so.1.12.0",
        "/usr/lib/swipl/lib/libswipl.so.9",
        "/opt/venv/lib/prolog.libs/libswipl-0a1b2c3d.so.9",
        "/usr/bin/racket",
        "racket",
    };
    static const char *const unknown[] = {
        "/usr/lib/libfontconfig.so", "/usr/lib/xlibswipl.so.9", "/usr/lib/libswipl.so.9/plugin.so",
        "/usr/bin/racket8",          "/usr/bin/rack",           "/opt/racket/bin/other",
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_true(is_found(code_at(START, known[i])));
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_false(is_found(code_at(START, unknown[i])));
}

/* Behind the name the text of the list goes on. */
static void test_a_name_ends_where_its_length_says(void **state)
{
    (void)state;
    struct mapping mapping = code_at(START, "/usr/bin/racket-and-more");
    mapping.name_length = strlen("/usr/bin/racket");
    assert_true(is_found(mapping));
    mapping.name_length--;
    assert_false(is_found(mapping));
}

static void test_a_hider_is_known_by_a_function_of_its_own(void **state)
{
    (void)state;
    uintptr_t function = (uintptr_t)PL_initialise;
    struct mapping mapping = code_at(function, "/opt/program");
    assert_true(is_found(mapping));
    mapping.start++;
    assert_false(is_found(mapping));
    mapping = code_at(function - BYTES, "/opt/program"); /* ends where it begins */
    assert_false(is_found(mapping));
    mapping.end++;
    assert_true(is_found(mapping));
}

static void test_a_function_that_no_file_has_is_nowhere(void **state)
{
    (void)state;
    assert_false(is_found(code_at(0, "/opt/program")));
}

static void test_only_code_of_a_file_is_a_hiders(void **state)
{
    (void)state;
    struct mapping data = code_at(START, "/usr/bin/racket");
    data.executable = false;
    assert_false(is_found(data));
    assert_false(is_found(code_at((uintptr_t)PL_initialise, "")));
}

/* A block is live before the second of two looks: [looked at stopped]. */
static void test_two_looks_pin_all_when_a_hider_is_new(void **state)
{
    (void)state;
    struct mapping mappings[2] = {code_at(START, "racket"), code_at(3 * START, "libswipl.so.9")};
    assert_false(hiders_look(mappings, 0));
    assert_true(hiders_look(mappings, 1));
    assert_true(hiders_look(mappings, 1));
    assert_false(hiders_look(mappings, 1));
    assert_true(hiders_look(mappings, 2));
    assert_true(hiders_look(mappings, 2));
    assert_false(hiders_look(mappings, 2));
}

static void test_a_hider_that_has_moved_or_come_back_is_new(void **state)
{
    (void)state;
    struct mapping mapping = code_at(START, "racket");
    look_at(mapping);
    look_at(mapping);
    mapping.end += BYTES;
    assert_true(look_at(mapping));
    assert_true(look_at(mapping));
    assert_false(look_at(mapping));
    assert_false(hiders_look(NULL, 0));
    assert_int_equal(hiders_count(), 0);
    assert_true(look_at(mapping));
}

static void test_looks_begin_again_when_they_are_asked_for(void **state)
{
    (void)state;
    struct mapping mapping = code_at(START, "racket");
    look_at(mapping);
    hiders_look_again();
    assert_true(look_at(mapping));
    assert_true(look_at(mapping));
    assert_false(look_at(mapping));
}

static void test_a_site_is_a_hiders_from_its_first_byte_to_its_last(void **state)
{
    (void)state;
    const char *code = (const char *)(uintptr_t)START;
    look_at(code_at(START, "racket"));
    assert_false(hiders_have(code - 1));
    assert_true(hiders_have(code));
    assert_true(hiders_have(code + BYTES - 1));
    assert_false(hiders_have(code + BYTES));
}

static void test_an_unknown_site_is_a_hiders_if_there_is_any(void **state)
{
    (void)state;
    assert_false(hiders_have(NULL));
    look_at(code_at(START, "racket"));
    assert_true(hiders_have(NULL));
}

static void test_of_too_many_hiders_the_first_are_known(void **state)
{
    (void)state;
    enum { MANY = MOST_RANGES + 3 };
    struct mapping mappings[MANY];
    for (size_t i = 0; i < MANY; i++)
        mappings[i] = code_at(START * (i + 1), "racket");
    for (int look = 0; look < LOOKS; look++)
        assert_true(hiders_look(mappings, MANY));
    assert_false(hiders_look(mappings, MANY));
    assert_int_equal(hiders_count(), MOST_RANGES);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(hiders_have((const void *)mappings[i].start), i < MOST_RANGES);
}

/* This program's own code, which no look has found. */
static void test_ld_so_knows_a_hider_before_a_look_does(void **state)
{
    (void)state;
    if (!_dl_find_object)
        skip();
    const void *own_code = (const void *)(uintptr_t)start;
    assert_false(hiders_have(own_code));
    assert_true(hiders_own(own_code));
    assert_false(hiders_own(stdout)); /* libc's */
    assert_false(hiders_own(state));  /* in no file */
    assert_false(hiders_own(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_hider_is_known_by_the_name_of_its_file, start),
        cmocka_unit_test_setup(test_a_name_ends_where_its_length_says, start),
        cmocka_unit_test_setup(test_a_hider_is_known_by_a_function_of_its_own, start),
        cmocka_unit_test_setup(test_a_function_that_no_file_has_is_nowhere, start),
        cmocka_unit_test_setup(test_only_code_of_a_file_is_a_hiders, start),
        cmocka_unit_test_setup(test_two_looks_pin_all_when_a_hider_is_new, start),
        cmocka_unit_test_setup(test_a_hider_that_has_moved_or_come_back_is_new, start),
        cmocka_unit_test_setup(test_looks_begin_again_when_they_are_asked_for, start),
        cmocka_unit_test_setup(test_a_site_is_a_hiders_from_its_first_byte_to_its_last, start),
        cmocka_unit_test_setup(test_an_unknown_site_is_a_hiders_if_there_is_any, start),
        cmocka_unit_test_setup(test_of_too_many_hiders_the_first_are_known, start),
        cmocka_unit_test_setup(test_ld_so_knows_a_hider_before_a_look_does, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
