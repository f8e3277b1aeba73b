/* SPDX-License-Identifier: MIT
 *
 * test_live_blocks.c: the table of live blocks agrees with an array, which has a place for each
 * address that there is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench_programs/random.h"
#include "trace/events/live_blocks.h"

enum { ADDRESSES = 120000 };

static uint64_t pointer_of(size_t i)
{
    return UINT64_C(0x7f0000000000) + i * 16;
}

/* The sizes of the blocks that live; 0: none does. The object is made from the size. */
static uint64_t sizes[ADDRESSES];

static void add(struct live_blocks *blocks, size_t i, uint64_t size)
{
    struct live_block block = {.pointer = pointer_of(i), .object = ~size, .size = size};
    assert_true(live_blocks_add(blocks, block));
    sizes[i] = size;
}

static void look(const struct live_blocks *blocks, size_t i)
{
    const struct live_block *found = live_blocks_find(blocks, pointer_of(i));
    if (sizes[i] == 0) {
        assert_null(found);
        return;
    }
    assert_non_null(found);
    assert_int_equal(found->pointer, pointer_of(i));
    assert_int_equal(found->size, sizes[i]);
    assert_int_equal(found->object, ~sizes[i]);
}

static void look_at_all(const struct live_blocks *blocks)
{
    size_t live = 0;
    for (size_t i = 0; i < ADDRESSES; i++) {
        look(blocks, i);
        live += sizes[i] > 0;
    }
    assert_int_equal(blocks->used, live);
}

/* most: of the addresses; so the table is filled up to a half, or grows. */
static void agree_with_an_array(size_t most, size_t steps)
{
    struct live_blocks blocks;
    uint64_t random = most;
    assert_true(live_blocks_init(&blocks));
    for (size_t i = 0; i < ADDRESSES; i++)
        sizes[i] = 0;
    for (size_t step = 1; step <= steps; step++) {
        size_t i = random_below(&random, most);
        look(&blocks, i);
        if (sizes[i] == 0) {
            add(&blocks, i, step);
        } else {
            live_blocks_remove(&blocks, live_blocks_find(&blocks, pointer_of(i)));
            sizes[i] = 0;
        }
        if (step % (steps / 10) == 0)
            look_at_all(&blocks);
    }
    live_blocks_free(&blocks);
}

static void test_a_table_that_is_half_full_agrees_with_an_array(void **state)
{
    (void)state;
    agree_with_an_array(60000, 500000);
}

static void test_a_table_that_has_grown_agrees_with_an_array(void **state)
{
    (void)state;
    agree_with_an_array(ADDRESSES, 500000);
}

static void test_all_blocks_survive_growth(void **state)
{
    (void)state;
    struct live_blocks blocks;
    assert_true(live_blocks_init(&blocks));
    size_t capacity = blocks.capacity;
    for (size_t i = 0; i < ADDRESSES; i++)
        sizes[i] = 0;
    for (size_t i = 0; i < ADDRESSES; i++) {
        add(&blocks, i, i + 1);
        assert_true(2 * blocks.used <= blocks.capacity); /* a search ends at an empty place */
    }
    assert_true(blocks.capacity > capacity);
    look_at_all(&blocks);
    live_blocks_free(&blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_table_that_is_half_full_agrees_with_an_array),
        cmocka_unit_test(test_a_table_that_has_grown_agrees_with_an_array),
        cmocka_unit_test(test_all_blocks_survive_growth),
    };
    return cmocka_run_group_tests_name("live blocks", tests, NULL, NULL);
}
