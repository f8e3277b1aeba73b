/* SPDX-License-Identifier: MIT
 *
 * test_free_bins.c: the bins of free blocks: what each holds, and which is next.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc/policies/free_bins.h"

static void assert_bin_holds(size_t units)
{
    unsigned bin = free_bin_of(units);
    assert_true(bin < FREE_BINS);
    assert_true(free_bin_start(bin) <= units);
    assert_true(bin == FREE_BINS - 1 || units < free_bin_start(bin + 1));
}

static void test_every_size_has_the_last_bin_that_starts_at_or_below_it(void **state)
{
    (void)state;
    for (size_t units = 0; units < 100000; units++)
        assert_bin_holds(units);
    for (unsigned log = 16; log < 64; log++)
        for (size_t off = 0; off < 3; off++)
            assert_bin_holds(((size_t)1 << log) - 1 + off);
    assert_int_equal(free_bin_of(SIZE_MAX), FREE_BINS - 1);
}

static void test_small_sizes_have_bins_of_their_own(void **state)
{
    (void)state;
    for (unsigned units = 0; units < EXACT_BINS; units++)
        assert_int_equal(free_bin_of(units), units);
    assert_int_equal(free_bin_start(EXACT_BINS), EXACT_BINS);
}

static void test_the_next_bin_is_the_first_that_is_set(void **state)
{
    (void)state;
    struct free_bin_map map = {{0}};
    assert_int_equal(free_bin_next(&map, 0), FREE_BINS);
    for (unsigned low = 0; low < FREE_BINS; low += 7)
        for (unsigned high = low; high < FREE_BINS; high += 11) {
            free_bin_set(&map, low);
            free_bin_set(&map, high);
            assert_int_equal(free_bin_next(&map, 0), low);
            assert_int_equal(free_bin_next(&map, low), low);
            assert_int_equal(free_bin_next(&map, low + 1), high > low ? high : FREE_BINS);
            assert_int_equal(free_bin_next(&map, high + 1), FREE_BINS);
            free_bin_clear(&map, low);
            free_bin_clear(&map, high);
            assert_int_equal(free_bin_next(&map, 0), FREE_BINS);
        }
    assert_int_equal(free_bin_next(&map, FREE_BINS), FREE_BINS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_has_the_last_bin_that_starts_at_or_below_it),
        cmocka_unit_test(test_small_sizes_have_bins_of_their_own),
        cmocka_unit_test(test_the_next_bin_is_the_first_that_is_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
