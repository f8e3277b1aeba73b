/* SPDX-License-Identifier: MIT
 *
 * test_tagged_heap.c: boundary tags of which a live block has one, as the default presets of knuth
 * and cartesian have them: with bins alone, and with a tree for the larger free blocks.
 */
#include "tests/unit/heap_unit.h"

static const struct heap_case bins = {&knuth_policy, {"counters=on", "search=binned"}};
static const struct heap_case from_end = {&knuth_policy, {"search=binned", "cut=end"}};
static const struct heap_case tree = {&cartesian_policy, {"counters=on", "tree=fast"}};

static void test_tagged_heap_blocks_cost_one_word(void **state)
{
    (void)state;
    char *first = take(24), *second = take(25), *third = take(0);
    assert_int_equal(second - first, 32);
    assert_int_equal(third - second, 48);
    assert_int_equal(usable(first), 24);
    assert_int_equal(usable(second), 40);
    assert_int_equal(heap.policy->waste(heap.state, first).header_bytes, 8);
}

static void test_tagged_heap_lets_every_usable_byte_be_written(void **state)
{
    (void)state;
    char *blocks[100];
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = take(24 + 40 * i);
        memset(blocks[i], 0xFF, usable(blocks[i]));
    }
    for (size_t i = 0; i < 100; i += 3)
        give(blocks[i]);
    for (size_t i = 1; i < 100; i += 3) { /* above a free one, and below another */
        memset(blocks[i], 0, usable(blocks[i]));
        memset(blocks[i + 1], 0, usable(blocks[i + 1]));
    }
    assert_true(heap_is_valid());
    for (size_t i = 1; i < 100; i++)
        if (i % 3 != 0)
            give(blocks[i]);
    assert_int_equal(statistics().free_blocks, 1);
}

static void test_tagged_heap_merges_both_neighbours_on_free(void **state)
{
    (void)state;
    assert_merges_both_neighbours(100, 300);
    assert_merges_both_neighbours(30000, 90000);
    assert_merges_both_neighbours(8000, 24000); /* from the bins into the tree */
}

static void test_tagged_heap_takes_the_smallest_bin_that_serves(void **state)
{
    (void)state;
    void *holes[4];
    for (size_t i = 0; i < 4; i++) {
        holes[i] = take((const size_t[]){3000, 200, 600, 20000}[i]);
        take(8);
    }
    for (size_t i = 0; i < 4; i++)
        give(holes[i]);
    assert_ptr_equal(take(400), holes[2]); /* 192 remain */
    assert_ptr_equal(take(1500), holes[0]);
    assert_ptr_equal(take(200), holes[1]);
    assert_ptr_equal(take(18000), holes[3]);
}

static void test_tagged_heap_takes_the_wilderness_last_and_grows_by_what_it_lacks(void **state)
{
    (void)state;
    void *hole = take(4000);
    take(4096);
    give(hole);
    assert_ptr_equal(take(2000), hole);
    size_t end = end_of_memory();
    take(end + 100); /* has no room but at the end */
    assert_true(end_of_memory() <= 2 * end + 8192);
}

static void test_tagged_heap_sheds_what_a_smaller_size_does_not_need(void **state)
{
    (void)state;
    void *block = take(1000);
    take(16);
    uint64_t free_bytes = statistics().free_bytes;
    assert_true(resizes_in_place(block, 100));
    assert_int_equal(usable(block), 104);
    assert_int_equal(statistics().free_bytes, free_bytes + 1008 - 112);
}

static void test_tagged_heap_resizes_into_a_free_upper_neighbour(void **state)
{
    (void)state;
    assert_resizes_into_a_free_upper_neighbour();
    char *block = take(2000), *upper = take(50000);
    take(60000);
    give(upper); /* in the tree, if there is one */
    assert_true(resizes_in_place(block, 3000));
    assert_true(heap_is_valid());
    assert_true(resizes_in_place(block, 52000));
    assert_false(resizes_in_place(block, 53000));
}

static void test_tagged_heap_gives_back_the_ends_of_an_aligned_block(void **state)
{
    (void)state;
    assert_gives_back_the_ends_of_an_aligned_block(104, 104);
}

static void test_tagged_heap_is_unchanged_when_memory_is_refused(void **state)
{
    (void)state;
    assert_unchanged_when_memory_is_refused();
}

/* Also after it has merged with either neighbour. */
static void test_tagged_heap_finds_a_block_that_was_freed_before(void **state)
{
    (void)state;
    char *lower = take(100), *block = take(100), *upper = take(100);
    take(8);
    give(block);
    assert_free_aborts(block, "not a live block");
    give(lower);
    assert_free_aborts(block, "not a live block");
    assert_free_aborts(lower, "not a live block");
    give(upper);
    assert_free_aborts(upper, "not a live block");
}

static void test_tagged_heap_finds_a_pointer_into_a_block(void **state)
{
    (void)state;
    assert_pointers_into_a_block_abort("not a live block");
}

static void test_tagged_heap_finds_what_is_written_past_the_end(void **state)
{
    (void)state;
    char *block = take(100), *next = take(100);
    char *past_end = block + usable(block), saved[8];
    memcpy(saved, past_end, 8);
    for (size_t bytes = 1; bytes <= 8; bytes++) {
        for (int byte = 0; byte < 256; byte++) {
            memset(past_end, byte, bytes);
            if (memcmp(past_end, saved, 8) != 0)
                assert_int_equal(usable(next), 0);
        }
        assert_free_aborts(block, "the tag behind it was overwritten");
        assert_free_aborts(next, "or its tag was overwritten)");
        assert_false(heap_is_valid());
        memcpy(past_end, saved, 8);
    }
    assert_free_succeeds(block);
}

static void take_100(void *unused)
{
    (void)unused;
    take(100);
}

static void test_tagged_heap_finds_an_overwritten_tag_of_a_block_it_takes(void **state)
{
    (void)state;
    char *block = take(100), *hole = take(100);
    take(8);
    give(hole);
    block[usable(block)] ^= 1;
    assert_aborts(take_100, NULL, "boundary tag(0x");
    block[usable(block)] ^= 1;
    hole[96] ^= 1; /* the upper one */
    assert_aborts(take_100, NULL, "boundary tag(0x");
    hole[96] ^= 1;
    assert_ptr_equal(take(100), hole);
}

/* A search has a bound: in the tree, of which most nodes are of one size, and in a bin. */
static void test_tagged_heap_searches_stay_short(void **state)
{
    (void)state;
    enum { HOLES = 5000 };
    static void *holes[HOLES];
    for (int i = 0; i < HOLES; i++) {
        holes[i] = take(i % 8 ? 1040 : 1500);
        take(8);
    }
    for (int i = 0; i < HOLES; i++)
        give(holes[i]);
    for (int i = 0; i < 100; i++)
        take(1090);
    struct heap_statistics found = statistics();
    assert_true(found.searches > 0 && found.tree_depth < 100);
    for (int i = 7; i < 16; i++)
        assert_int_equal(found.search_lengths[i], 0);
}

#define BOTH(test) HEAP_TEST(test, bins), HEAP_TEST(test, tree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_tagged_heap_blocks_cost_one_word),
        BOTH(test_tagged_heap_lets_every_usable_byte_be_written),
        HEAP_TEST(test_tagged_heap_lets_every_usable_byte_be_written, from_end),
        BOTH(test_tagged_heap_merges_both_neighbours_on_free),
        BOTH(test_tagged_heap_takes_the_smallest_bin_that_serves),
        BOTH(test_tagged_heap_takes_the_wilderness_last_and_grows_by_what_it_lacks),
        BOTH(test_tagged_heap_sheds_what_a_smaller_size_does_not_need),
        BOTH(test_tagged_heap_resizes_into_a_free_upper_neighbour),
        BOTH(test_tagged_heap_gives_back_the_ends_of_an_aligned_block),
        BOTH(test_tagged_heap_is_unchanged_when_memory_is_refused),
        BOTH(test_tagged_heap_finds_a_block_that_was_freed_before),
        BOTH(test_tagged_heap_finds_a_pointer_into_a_block),
        BOTH(test_tagged_heap_finds_what_is_written_past_the_end),
        BOTH(test_tagged_heap_finds_an_overwritten_tag_of_a_block_it_takes),
        BOTH(test_tagged_heap_searches_stay_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
