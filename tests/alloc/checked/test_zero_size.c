/* SPDX-License-Identifier: MIT
 *
 * test_zero_size.c: blocks of no bytes differ, come back late, and are freed once.
 */
#include "tests/unit/unit.h"

#include "alloc/checked/zero_size.h"

static void test_blocks_differ_and_are_aligned(void **state)
{
    (void)state;
    char *previous = NULL;
    for (size_t alignment = 1; alignment <= 1024; alignment *= 2) {
        char *block = zero_size_alloc(alignment);
        assert_non_null(block);
        assert_true(zero_size_holds(block) && zero_size_is_live(block));
        assert_int_equal((uintptr_t)block % (alignment < 16 ? 16 : alignment), 0);
        assert_ptr_not_equal(block, previous);
        previous = block;
    }
    assert_null(zero_size_alloc(2048));
}

static void test_a_block_is_freed_once(void **state)
{
    (void)state;
    char *block = zero_size_alloc(16);
    assert_false(zero_size_free(block + 1));
    assert_true(zero_size_free(block));
    assert_false(zero_size_free(block));
    assert_false(zero_size_is_live(block));
}

static void test_an_address_before_the_first_block_is_none(void **state)
{
    (void)state;
    assert_false(zero_size_is_live(zero_size_range));
    assert_false(zero_size_free(zero_size_range));
    assert_false(zero_size_free(zero_size_range + 1024 - 16));
}

static void test_an_address_comes_back_late(void **state)
{
    (void)state;
    char *block = zero_size_alloc(16);
    assert_true(zero_size_free(block));
    for (int i = 0; i < 500; i++)
        assert_ptr_not_equal(zero_size_alloc(16), block);
}

/* What lies before the first block is without access too. */
static void test_the_range_is_used_up_and_no_more(void **state)
{
    (void)state;
    size_t blocks = 0;
    for (char *block; (block = zero_size_alloc(16)); blocks++)
        assert_true(block >= zero_size_range + 1024);
    assert_true(blocks > 60000 && blocks < 65536);
}

static int start(void **state)
{
    (void)state;
    zero_size_init();
    return zero_size_range ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_differ_and_are_aligned),
        cmocka_unit_test(test_a_block_is_freed_once),
        cmocka_unit_test(test_an_address_before_the_first_block_is_none),
        cmocka_unit_test(test_an_address_comes_back_late),
        cmocka_unit_test(test_the_range_is_used_up_and_no_more),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
