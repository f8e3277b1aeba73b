/* SPDX-License-Identifier: MIT
 *
 * test_size_bins.c: the bins of heaps without size classes, for every size there is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc/presets/size_bins.h"

enum { LAST_BIN = 61 };

static void test_size_bins_increase_in_multiples_of_16(void **state)
{
    (void)state;
    assert_int_equal(size_bin_bytes(0), 16);
    for (unsigned bin = 1; bin <= LAST_BIN; bin++) {
        assert_true(size_bin_bytes(bin) > size_bin_bytes(bin - 1));
        assert_int_equal(size_bin_bytes(bin) % 16, 0);
    }
    assert_int_equal(size_bin_bytes(LAST_BIN), SIZE_BINS_LARGEST(LAST_BIN));
}

static void test_size_bins_serve_every_size_by_the_smallest_that_holds_it(void **state)
{
    (void)state;
    for (size_t size = 1; size <= SIZE_BINS_LARGEST(LAST_BIN); size++) {
        unsigned bin = size_bin_of(size);
        assert_true(size_bin_bytes(bin) >= size);
        assert_true(bin == 0 || size_bin_bytes(bin - 1) < size);
    }
}

static void test_size_bins_waste_an_eighth_at_most(void **state)
{
    (void)state;
    for (size_t size = 257; size <= SIZE_BINS_LARGEST(LAST_BIN); size++)
        assert_true(size_bin_bytes(size_bin_of(size)) - size <= size / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_bins_increase_in_multiples_of_16),
        cmocka_unit_test(test_size_bins_serve_every_size_by_the_smallest_that_holds_it),
        cmocka_unit_test(test_size_bins_waste_an_eighth_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
