/* SPDX-License-Identifier: MIT
 *
 * test_shadow_byte.c: one byte says whether a block starts at a unit, and of which bin it is.
 */
#include "tests/unit/unit.h"

#include "alloc/layers/shadow_byte.h"

static void test_a_live_block_is_known_at_its_own_unit_only(void **state)
{
    (void)state;
    for (unsigned shift = 4; shift <= 5; shift++)
        for (size_t unit = 0; unit < 4; unit++)
            for (unsigned bin = 0; bin <= UNBINNED; bin++) {
                uint8_t byte = shadow_live(bin, unit, shift);
                assert_int_equal(shadow_bin(byte, unit, shift), bin);
                /* The other half of 32 bytes shares the byte, and is no block. */
                if (shift == 5)
                    assert_true(shadow_bin(byte, unit ^ 1, shift) > UNBINNED);
            }
}

static void test_a_zero_byte_names_no_bin(void **state)
{
    (void)state;
    for (unsigned shift = 4; shift <= 5; shift++)
        for (size_t unit = 0; unit < 2; unit++)
            assert_true(shadow_bin(0, unit, shift) > UNBINNED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_live_block_is_known_at_its_own_unit_only),
        cmocka_unit_test(test_a_zero_byte_names_no_bin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
