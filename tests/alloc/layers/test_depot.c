/* SPDX-License-Identifier: MIT
 *
 * test_depot.c: chains of free blocks that come and go by bin, within a bound.
 */
#include "tests/unit/unit.h"

#include "alloc/layers/depot.h"

enum { BLOCKS = 4096, BLOCK_BYTES = 64, LONGEST = 32, NO_BOUND = 1 << 30 };
static void *blocks[BLOCKS][2]; /* room for a link each */
static size_t used;

static struct depot depot = {.lock = LOCK_INITIALIZER(RANK_DEPOT)};

static struct chain make_chain(uint32_t count)
{
    struct chain chain = {.longest = LONGEST, .block_bytes = BLOCK_BYTES};
    for (; chain.count < count; chain.count++) {
        void **block = blocks[used++ % BLOCKS];
        *block = chain.blocks;
        chain.blocks = block;
    }
    return chain;
}

static uint32_t length(struct chain chain)
{
    uint32_t count = 0;
    for (void *block = chain.blocks; block; block = *(void **)block)
        count++;
    return count;
}

static void empty(unsigned bin)
{
    while (depot_get(&depot, bin).blocks)
        ;
}

static void test_chains_come_back_last_in_first_out_by_bin(void **state)
{
    (void)state;
    struct chain first = make_chain(LONGEST), second = make_chain(LONGEST - 1),
                 other = make_chain(LONGEST);
    assert_null(depot_put(&depot, 3, first, NO_BOUND).blocks);
    assert_null(depot_put(&depot, 3, second, NO_BOUND).blocks);
    assert_null(depot_put(&depot, 4, other, NO_BOUND).blocks);
    assert_int_equal(depot.blocks, 3 * LONGEST - 1);
    assert_int_equal(depot.bytes, (3 * LONGEST - 1) * BLOCK_BYTES);
    assert_ptr_equal(depot_get(&depot, 3).blocks, second.blocks);
    assert_ptr_equal(depot_get(&depot, 3).blocks, first.blocks);
    assert_null(depot_get(&depot, 3).blocks);
    assert_ptr_equal(depot_get(&depot, 4).blocks, other.blocks);
    assert_int_equal(depot.blocks, 0);
    assert_int_equal(depot.bytes, 0);
}

static void test_short_chains_are_joined_up_to_what_a_bin_takes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * LONGEST; i++)
        assert_null(depot_put(&depot, 0, make_chain(1), NO_BOUND).blocks);
    for (int i = 0; i < 3; i++) {
        struct chain chain = depot_get(&depot, 0);
        assert_int_equal(chain.count, LONGEST);
        assert_int_equal(length(chain), LONGEST);
    }
    assert_null(depot_get(&depot, 0).blocks);
}

static void test_what_exceeds_the_bound_comes_back_bins_in_turn(void **state)
{
    (void)state;
    enum { MOST = 10 * LONGEST * BLOCK_BYTES };
    unsigned returned = 0;
    struct chain none = {0};
    for (unsigned i = 0; i < 10; i++)
        assert_null(depot_put(&depot, i % 2, make_chain(LONGEST), MOST).blocks);
    for (unsigned i = 0; i < 10; i++) {
        struct chain chain = depot_put(&depot, 0, make_chain(LONGEST), MOST);
        assert_int_equal(length(chain), LONGEST);
        returned++;
        assert_null(depot_put(&depot, 0, none, MOST).blocks);
        assert_true(depot.bytes <= MOST);
    }
    assert_null(depot_get(&depot, 1).blocks); /* nobody asked for them: their turns came */
    for (struct chain chain; (chain = depot_put(&depot, 0, none, 0)).blocks;)
        returned += length(chain) == LONGEST;
    assert_int_equal(returned, 20);
    assert_int_equal(depot.bytes, 0);
    empty(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains_come_back_last_in_first_out_by_bin),
        cmocka_unit_test(test_short_chains_are_joined_up_to_what_a_bin_takes),
        cmocka_unit_test(test_what_exceeds_the_bound_comes_back_bins_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
