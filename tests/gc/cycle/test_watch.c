/* SPDX-License-Identifier: MIT
 *
 * test_watch.c: of which blocks that a collector would have lost a line is written.
 */
#include "tests/unit/said_lines.h"

/* Included, not linked: its state is made anew for each test. */
#include "gc/cycle/watch.c"

/* Of a block's address only the number counts. No file is at a site, so it is written as it is. */
static const void *at(uintptr_t number)
{
    return (const void *)(number << 4);
}

static void report(uintptr_t block)
{
    watch_report(at(block), 48, "free");
}

static int start(void **state)
{
    (void)state;
    memset(&watch.reported, 0, sizeof watch.reported);
    watch.count = 0;
    hear_lines();
    return watch_init() ? 0 : -1;
}

static void test_a_line_says_what_was_done_with_which_block_of_whom(void **state)
{
    (void)state;
    watch_note(at(0x123), at(0xab));
    watch_report(at(0x123), 48, "realloc");
    assert_int_equal(said.count, 1);
    assert_string_equal(said.lines[0],
                        "allotrope: gc: watch: realloc(0x1230), a block of 48 bytes that nothing "
                        "pointed to before, allocated by 0xab0\n");
}

static void test_a_site_has_one_line_whatever_its_blocks(void **state)
{
    (void)state;
    watch_note(at(1), at(0xab));
    watch_note(at(2), at(0xab));
    watch_note(at(3), at(0xac));
    report(1);
    report(2);
    report(1);
    assert_int_equal(said.count, 1);
    report(3);
    report(2);
    assert_int_equal(said.count, 2);
}

static void test_blocks_of_unknown_sites_have_one_line(void **state)
{
    (void)state;
    report(1);
    report(2);
    assert_int_equal(said.count, 1);
    assert_non_null(strstr(said.lines[0], "allocated by an unknown site\n"));
}

static void test_of_many_sites_the_first_have_a_line(void **state)
{
    (void)state;
    enum { MANY = 2 * MOST_REPORTED };
    for (int round = 0; round < 2; round++)
        for (uintptr_t i = 1; i <= MANY; i++) {
            watch_note(at(i), at(i));
            report(i);
        }
    assert_int_equal(said.count, MOST_REPORTED);
    for (uintptr_t i = 1; i <= MOST_REPORTED; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "allocated by %p\n", at(i));
        assert_non_null(strstr(said.lines[i - 1], expected));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_line_says_what_was_done_with_which_block_of_whom, start),
        cmocka_unit_test_setup(test_a_site_has_one_line_whatever_its_blocks, start),
        cmocka_unit_test_setup(test_blocks_of_unknown_sites_have_one_line, start),
        cmocka_unit_test_setup(test_of_many_sites_the_first_have_a_line, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
