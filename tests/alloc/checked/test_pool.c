/* SPDX-License-Identifier: MIT
 *
 * test_pool.c: the pages of sampled blocks: where blocks lie in them, how many there are, and which
 * is used again.
 */
#include "tests/unit/unit.h"

#include <string.h>

#include "alloc/checked/pool.h"

enum { SLOTS = 16, LIVE = 12 };

static int start(void **state)
{
    (void)state;
    pool_init(SLOTS);
    return 0;
}

static uintptr_t page_of(const char *block)
{
    return (uintptr_t)block / PAGE_BYTES;
}

static void test_a_block_ends_or_begins_its_page(void **state)
{
    (void)state;
    for (uint64_t random = 0; random < 8; random++) {
        char *block = pool_alloc(64, 40, random);
        assert_true(pool_holds(block));
        assert_int_equal((uintptr_t)block % PAGE_BYTES, random % 4 == 0 ? 0 : PAGE_BYTES - 64);
        for (int i = 0; i < 40; i++)
            assert_int_equal(block[i], 0);
        memset(block, 1, 40);
        pool_free(block, "free");
    }
}

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    assert_null(pool_alloc(16, 0, 1));
    assert_null(pool_alloc(16, PAGE_BYTES + 1, 1));
    assert_null(pool_alloc(2 * PAGE_BYTES, 16, 1));
    char *whole = pool_alloc(PAGE_BYTES, PAGE_BYTES, 1);
    assert_non_null(whole);
    pool_free(whole, "free");
}

static void test_live_blocks_are_bounded(void **state)
{
    (void)state;
    char *blocks[LIVE];
    struct pool_counts before, after;
    pool_count(&before);
    for (int i = 0; i < LIVE; i++)
        assert_non_null(blocks[i] = pool_alloc(16, 100, 1));
    assert_null(pool_alloc(16, 100, 1));
    pool_count(&after);
    assert_int_equal(after.live, LIVE);
    assert_int_equal(after.sampled - before.sampled, LIVE);
    assert_int_equal(after.passed_over - before.passed_over, 1);
    for (int i = 0; i < LIVE; i++)
        pool_free(blocks[i], "free");
}

static void test_the_longest_freed_page_is_used_next(void **state)
{
    (void)state;
    uintptr_t pages[SLOTS];
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < SLOTS; i++) {
            char *block = pool_alloc(16, 100, 1);
            if (round == 0)
                pages[i] = page_of(block);
            assert_int_equal(page_of(block), pages[i]);
            pool_free(block, "free");
        }
}

static void test_a_block_is_known_while_it_lives(void **state)
{
    (void)state;
    size_t bytes = 0;
    char *block = pool_alloc(16, 100, 1);
    assert_true(pool_find(block, &bytes));
    assert_int_equal(bytes, 100);
    assert_false(pool_find(block + 16, &bytes));
    assert_false(pool_find(block + PAGE_BYTES, &bytes));
    pool_free(block, "free");
    assert_false(pool_find(block, &bytes));
}

static void count_block(void *argument, const struct block_info *info)
{
    *(size_t *)argument += info->usable_bytes;
}

static void test_the_walk_sees_live_blocks(void **state)
{
    (void)state;
    size_t bytes = 0;
    char *one = pool_alloc(16, 100, 1), *other = pool_alloc(16, 10, 1);
    pool_free(other, "free");
    pool_walk(count_block, &bytes);
    assert_int_equal(bytes, 100);
    pool_free(one, "free");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_ends_or_begins_its_page),
        cmocka_unit_test(test_what_does_not_fit_is_refused),
        cmocka_unit_test(test_live_blocks_are_bounded),
        cmocka_unit_test(test_the_longest_freed_page_is_used_next),
        cmocka_unit_test(test_a_block_is_known_while_it_lives),
        cmocka_unit_test(test_the_walk_sees_live_blocks),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
