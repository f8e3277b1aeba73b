/* SPDX-License-Identifier: MIT
 *
 * test_knuth.c: what boundary-tag first fit is expected to do, case by case.
 */
#include "tests/unit/heap_unit.h"

static int begin_heap(void **state)
{
    (void)state;
    test_heap_init(&heap, &knuth_policy, (const char *const[]){"counters=on", NULL});
    return 0;
}

static int begin_heap_that_cuts_from_the_end(void **state)
{
    (void)state;
    test_heap_init(&heap, &knuth_policy, (const char *const[]){"counters=on", "cut=end", NULL});
    return 0;
}

static void test_knuth_serves_aligned_blocks_with_two_tags_of_cost(void **state)
{
    (void)state;
    char *first = take(24), *second = take(24);
    assert_int_equal((uintptr_t)first % 16, 0);
    assert_int_equal(second - first, 48);
    assert_int_equal(usable(first), 32);
    assert_int_equal(heap.policy->waste(heap.state, first).header_bytes, 16);
}

static void test_knuth_minimum_block_is_four_words(void **state)
{
    (void)state;
    char *first = take(0), *second = take(1);
    assert_int_equal(second - first, 32);
    assert_int_equal(usable(first), 16);
}

static void test_knuth_grows_by_8_kib(void **state)
{
    (void)state;
    take(1);
    assert_int_equal(end_of_memory(), 8192);
    take(8192); /* and its tags */
    assert_int_equal(end_of_memory(), 8192 + 16384);
    take(20000);
    assert_int_equal(end_of_memory(), 8192 + 16384 + 24576);
}

static void test_knuth_grows_by_the_whole_request_whatever_the_wilderness_holds(void **state)
{
    (void)state;
    take(4000);
    take(8192 + 4000); /* with the 4160 bytes that are left 8 KiB more would have sufficed */
    assert_int_equal(end_of_memory(), 8192 + 16384);
}

static void test_knuth_begins_anew_where_memory_grows_and_nothing_is_free(void **state)
{
    (void)state;
    char *first = take(8192 - 48), *second = take(100);
    assert_int_equal(statistics().free_blocks, 1);
    assert_int_equal(second - first, 8192);
    give(first);
    give(second); /* two fenceposts lie between */
    assert_int_equal(statistics().free_blocks, 2);
}

static void test_knuth_merges_with_the_lower_neighbour_on_free(void **state)
{
    (void)state;
    void *lower = take(100), *upper = take(100);
    take(100);
    give(lower);
    uint64_t blocks = statistics().free_blocks, merges = statistics().merges;
    give(upper);
    assert_int_equal(statistics().free_blocks, blocks);
    assert_int_equal(statistics().merges, merges + 1);
    assert_ptr_equal(take(210), lower);
}

static void test_knuth_merges_with_the_upper_neighbour_on_free(void **state)
{
    (void)state;
    void *lower = take(100), *upper = take(100);
    take(100);
    give(upper);
    give(lower);
    assert_ptr_equal(take(210), lower);
}

static void test_knuth_merges_both_neighbours_on_free(void **state)
{
    (void)state;
    void *lower = take(100), *middle = take(100), *upper = take(100);
    take(100);
    give(lower);
    give(upper);
    uint64_t blocks = statistics().free_blocks;
    give(middle);
    assert_int_equal(statistics().free_blocks, blocks - 1);
    assert_ptr_equal(take(320), lower);
}

static void test_knuth_keeps_a_remainder_below_four_words_in_the_block(void **state)
{
    (void)state;
    void *block = take(112);
    take(16);
    give(block);
    assert_ptr_equal(take(96), block); /* 16 bytes over */
    assert_int_equal(usable(block), 112);
    give(block);
    assert_ptr_equal(take(80), block); /* 32 bytes over: a block of their own */
    assert_int_equal(usable(block), 80);
}

static void test_knuth_cuts_from_the_start(void **state)
{
    (void)state;
    char *first = take(64), *second = take(64);
    assert_true(first < second);
}

static void test_knuth_cuts_from_the_end_when_asked(void **state)
{
    (void)state;
    char *first = take(64), *second = take(64);
    assert_true(first > second);
    assert_int_equal((size_t)(first - heap.source.base) + 64 + 16, 8192);
}

static void test_knuth_search_starts_at_the_block_just_freed(void **state)
{
    (void)state;
    void *low = take(64);
    take(64);
    void *high = take(64);
    take(64);
    give(low);
    give(high);
    assert_ptr_equal(take(64), high);
    assert_ptr_equal(take(64), low);
}

static void test_knuth_leaves_the_wilderness_alone_while_others_fit(void **state)
{
    (void)state;
    void *hole = take(500);
    void *last = take(500);
    give(hole);
    give(last); /* merges with the wilderness, and both with the hole: one block is left */
    assert_int_equal(statistics().free_blocks, 1);
    hole = take(500);
    take(16);
    last = take(16);
    give(hole);
    give(last);
    assert_ptr_equal(take(400), hole);
}

/* Blocks of 64 bytes, every other one free. */
static void make_holes(void)
{
    void *blocks[64];
    for (int i = 0; i < 64; i++)
        blocks[i] = take(48);
    for (int i = 0; i < 64; i += 2)
        give(blocks[i]);
}

static void test_knuth_grows_before_a_search_that_would_be_hopeless(void **state)
{
    (void)state;
    make_holes();
    uint64_t searches = statistics().searches;
    take(100000); /* more than all free words together: one search, of what there is by then */
    assert_int_equal(statistics().searches, searches + 1);
}

static int begin_heap_with_short_searches(void **state)
{
    (void)state;
    test_heap_init(&heap, &knuth_policy,
                   (const char *const[]){"counters=on", "search=short", NULL});
    return 0;
}

static void test_knuth_makes_no_hopeless_search_when_asked(void **state)
{
    (void)state;
    make_holes();
    uint64_t searches = statistics().searches;
    take(100000);
    assert_int_equal(statistics().searches, searches);
}

static void test_knuth_keeps_the_rover_at_the_larger_block(void **state)
{
    (void)state;
    void *small = take(64), *large;
    take(16);
    large = take(1000);
    take(16);
    give(large);
    give(small); /* the rover is here: 80 bytes */
    assert_ptr_equal(take(100), large);
    /* What remains of the large block outweighs the small one, and is searched first. */
    assert_ptr_equal(take(48), (char *)large + 128);
}

static void test_knuth_counts_how_many_blocks_a_search_looked_at(void **state)
{
    (void)state;
    make_holes();
    take(200); /* 32 holes, then the wilderness: 33 blocks */
    assert_int_equal(statistics().search_lengths[5], 1);
}

static void test_knuth_resizes_into_a_free_upper_neighbour(void **state)
{
    (void)state;
    char *block = take(100), *upper = take(200);
    take(16);
    give(upper);
    assert_true(heap.policy->resize(heap.state, block, 250));
    assert_true(usable(block) >= 250);
    assert_valid();
    assert_false(heap.policy->resize(heap.state, block, 5000));
}

static void test_knuth_sheds_what_a_smaller_size_does_not_need(void **state)
{
    (void)state;
    void *block = take(1000);
    take(16);
    uint64_t free_bytes = statistics().free_bytes;
    assert_true(heap.policy->resize(heap.state, block, 100));
    assert_int_equal(usable(block), 112);
    assert_int_equal(statistics().free_bytes, free_bytes + 1008 - 112);
}

static void test_knuth_gives_back_the_ends_of_an_aligned_block(void **state)
{
    (void)state;
    void *block = heap.policy->alloc_aligned(heap.state, 1024, 100);
    assert_int_equal((uintptr_t)block % 1024, 0);
    assert_int_equal(usable(block), 112);
    assert_valid();
    give(block);
    assert_int_equal(statistics().free_blocks, 1);
}

static void test_knuth_does_not_merge_across_memory_that_does_not_adjoin(void **state)
{
    (void)state;
    void *before = take(8192 - 32);
    heap.source.segments[0].end += 65536; /* somebody else took memory */
    begin_test_segment(&heap.source, heap.source.base + (1 << 20));
    heap.source.segments[0].end -= 65536;
    void *after = take(8192);
    assert_ptr_equal((char *)(uintptr_t)((uintptr_t)after & ~UINT64_C(0xffff)),
                     heap.source.base + (1 << 20));
    assert_valid();
    give(before);
    give(after);
    assert_int_equal(statistics().free_blocks, 2);
}

static enum source_decision refuse(void *argument)
{
    (void)argument;
    return SOURCE_REFUSE;
}

static void test_knuth_is_unchanged_when_memory_is_refused(void **state)
{
    (void)state;
    void *block = take(100);
    heap.source.decide = refuse;
    struct heap_statistics before = statistics();
    assert_null(take(100000));
    assert_null(heap.policy->alloc_aligned(heap.state, 65536, 10));
    assert_null(take((size_t)PTRDIFF_MAX));
    assert_int_equal(statistics().free_bytes, before.free_bytes);
    give(block);
}

static void test_knuth_finds_a_block_that_was_freed_before(void **state)
{
    (void)state;
    void *block = take(100);
    take(100);
    give(block);
    assert_true(free_aborts(block));
}

static void test_knuth_finds_a_pointer_into_a_block(void **state)
{
    (void)state;
    char *block = take(100);
    memset(block, 0xA, 100);
    assert_true(free_aborts(block + 16));
    assert_true(free_aborts(block + 1));
}

static void test_knuth_finds_an_overwritten_tag_beside_the_block(void **state)
{
    (void)state;
    char *block = take(100), *next = take(100);
    uint64_t tag = *(uint64_t *)(void *)(next - 8);
    memset(next - 8, 'x', 8);
    assert_true(free_aborts(block));
    assert_true(free_aborts(next));
    assert_false(heap.policy->is_valid(heap.state));
    *(uint64_t *)(void *)(next - 8) = tag;
}

static int begin_heap_that_looks_at_ends(void **state)
{
    (void)state;
    test_heap_init(&heap, &knuth_policy, (const char *const[]){"end=checked", NULL});
    return 0;
}

static void test_knuth_finds_a_byte_written_past_the_end_when_asked(void **state)
{
    (void)state;
    char *block = take(100), *next = take(100);
    char *past_end = block + usable(block);
    const char tag = *past_end;
    *past_end = 's'; /* in its low bits the sign of a free block */
    assert_true(free_aborts(block));
    assert_true(free_aborts(next));
    *past_end = tag;
    assert_false(free_aborts(block));
    give(block);
    give(next);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_heap, end_heap)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_knuth_serves_aligned_blocks_with_two_tags_of_cost),
        TEST(test_knuth_minimum_block_is_four_words),
        TEST(test_knuth_grows_by_8_kib),
        TEST(test_knuth_grows_by_the_whole_request_whatever_the_wilderness_holds),
        TEST(test_knuth_begins_anew_where_memory_grows_and_nothing_is_free),
        TEST(test_knuth_merges_with_the_lower_neighbour_on_free),
        TEST(test_knuth_merges_with_the_upper_neighbour_on_free),
        TEST(test_knuth_merges_both_neighbours_on_free),
        TEST(test_knuth_keeps_a_remainder_below_four_words_in_the_block),
        TEST(test_knuth_cuts_from_the_start),
        cmocka_unit_test_setup_teardown(test_knuth_cuts_from_the_end_when_asked,
                                        begin_heap_that_cuts_from_the_end, end_heap),
        TEST(test_knuth_search_starts_at_the_block_just_freed),
        TEST(test_knuth_leaves_the_wilderness_alone_while_others_fit),
        TEST(test_knuth_grows_before_a_search_that_would_be_hopeless),
        cmocka_unit_test_setup_teardown(test_knuth_makes_no_hopeless_search_when_asked,
                                        begin_heap_with_short_searches, end_heap),
        TEST(test_knuth_keeps_the_rover_at_the_larger_block),
        TEST(test_knuth_counts_how_many_blocks_a_search_looked_at),
        TEST(test_knuth_resizes_into_a_free_upper_neighbour),
        TEST(test_knuth_sheds_what_a_smaller_size_does_not_need),
        TEST(test_knuth_gives_back_the_ends_of_an_aligned_block),
        TEST(test_knuth_does_not_merge_across_memory_that_does_not_adjoin),
        TEST(test_knuth_is_unchanged_when_memory_is_refused),
        TEST(test_knuth_finds_a_block_that_was_freed_before),
        TEST(test_knuth_finds_a_pointer_into_a_block),
        TEST(test_knuth_finds_an_overwritten_tag_beside_the_block),
        cmocka_unit_test_setup_teardown(test_knuth_finds_a_byte_written_past_the_end_when_asked,
                                        begin_heap_that_looks_at_ends, end_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
