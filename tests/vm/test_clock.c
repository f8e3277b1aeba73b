/* SPDX-License-Identifier: MIT
 *
 * test_clock.c: the clock without system calls agrees with the one that makes them.
 */
#include "tests/unit/unit.h"

#include <sys/auxv.h>

#include "vm/clock.h"

static void test_the_coarse_clock_is_between_two_looks_at_the_kernels(void **state)
{
    (void)state;
    if (!getauxval(AT_SYSINFO_EHDR)) {
        assert_int_equal(coarse_ns(), 0);
        return;
    }
    for (int i = 0; i < 1000; i++) {
        uint64_t before = clock_ns(CLOCK_MONOTONIC_COARSE), found = coarse_ns();
        assert_in_range(found, before, clock_ns(CLOCK_MONOTONIC_COARSE));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_coarse_clock_is_between_two_looks_at_the_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
