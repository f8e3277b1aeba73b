/* SPDX-License-Identifier: MIT
 *
 * test_knuth.c: what boundary-tag first fit is expected to do, case by case.
 */
#include "tests/unit/heap_unit.h"

static const struct heap_case plain = {&knuth_policy, {"counters=on"}};
static const struct heap_case aligned_to_8 = {&knuth_policy, {"align=8"}};
static const struct heap_case cuts_from_the_end = {&knuth_policy, {"counters=on", "cut=end"}};
static const struct heap_case short_searches = {&knuth_policy, {"counters=on", "search=short"}};
static const struct heap_case bins = {&knuth_policy, {"counters=on", "search=binned"}};
static const struct heap_case looks_at_ends = {&knuth_policy, {"end=checked"}};

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
    assert_merges_both_neighbours(100, 320);
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

/* The links lie at a free block's high end: a cut from its start writes no other free block. */
static void test_knuth_cutting_links_nothing_anew(void **state)
{
    (void)state;
    char *holes[3], before[3][512];
    for (int i = 0; i < 3; i++) {
        holes[i] = take(480);
        take(8);
    }
    for (int i = 0; i < 3; i++)
        give(holes[i]);
    for (int i = 0; i < 3; i++)
        memcpy(before[i], holes[i] - 8, 496);
    assert_ptr_equal(take(100), holes[2]);
    assert_memory_equal(holes[0] - 8, before[0], 496);
    assert_memory_equal(holes[1] - 8, before[1], 496);
    assert_memory_equal(holes[2] + 472 - 24, before[2] + 480 - 24, 16); /* its own links stay */
    assert_true(heap_is_valid());
}

static void test_knuth_rounds_to_eight_when_asked(void **state)
{
    (void)state;
    char *first = take(24), *second = take(24);
    assert_ptr_equal(second, first + 40);
    assert_int_equal(usable(first), 24);
    for (size_t alignment = 16; alignment <= 4096; alignment *= 2)
        assert_int_equal((uintptr_t)take_aligned(alignment, 20) % alignment, 0);
    assert_true(heap_is_valid());
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

static void test_knuth_makes_no_hopeless_search_when_asked(void **state)
{
    (void)state;
    make_holes();
    uint64_t searches = statistics().searches;
    take(100000);
    assert_int_equal(statistics().searches, searches);
}

/* Many holes of one size, and one, freed first, of twice the size; returns it. */
static void *make_crowd(int holes, size_t size)
{
    void *blocks[1000], *large = take(2 * size);
    take(16);
    for (int i = 0; i < holes; i++) {
        blocks[i] = take(size);
        take(16);
    }
    give(large);
    for (int i = 0; i < holes; i++)
        give(blocks[i]);
    return large;
}

static void test_knuth_looks_at_few_blocks_when_binned(void **state)
{
    (void)state;
    make_crowd(1000, 5 * 1024);
    for (size_t size = 200; size < 8000; size += 48) /* some that all holes just miss */
        take(size);
    struct heap_statistics found = statistics();
    assert_true(found.searches > 0);
    for (int i = 7; i < 16; i++) /* 2^6 is the limit */
        assert_int_equal(found.search_lengths[i], 0);
}

static void test_knuth_finds_a_hole_behind_any_number_of_others_when_binned(void **state)
{
    (void)state;
    void *hole = make_crowd(1000, 300);
    assert_ptr_equal(take(600), hole);
}

static void test_knuth_joins_memory_that_adjoins_when_binned(void **state)
{
    (void)state;
    char *first = take(8192 - 48), *second = take(100); /* nothing is free when memory grows */
    assert_int_equal(second - first, 8192 - 16);
    give(first);
    give(second);
    assert_int_equal(statistics().free_blocks, 1);
}

static void test_knuth_grows_by_what_the_wilderness_lacks_when_binned(void **state)
{
    (void)state;
    take(4000);
    take(8192 + 4000); /* 4160 bytes are left */
    assert_int_equal(end_of_memory(), 16384);
    take(200);
    assert_int_equal(end_of_memory(), 24576);
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
    assert_resizes_into_a_free_upper_neighbour();
}

static void test_knuth_sheds_what_a_smaller_size_does_not_need(void **state)
{
    (void)state;
    void *block = take(1000);
    take(16);
    uint64_t free_bytes = statistics().free_bytes;
    assert_true(resizes_in_place(block, 100));
    assert_int_equal(usable(block), 112);
    assert_int_equal(statistics().free_bytes, free_bytes + 1008 - 112);
}

static void test_knuth_gives_back_the_ends_of_an_aligned_block(void **state)
{
    (void)state;
    assert_gives_back_the_ends_of_an_aligned_block(112, 112);
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
    assert_true(heap_is_valid());
    give(before);
    give(after);
    assert_int_equal(statistics().free_blocks, 2);
}

static void test_knuth_is_unchanged_when_memory_is_refused(void **state)
{
    (void)state;
    assert_unchanged_when_memory_is_refused();
}

static void test_knuth_finds_a_block_that_was_freed_before(void **state)
{
    (void)state;
    void *block = take(100);
    take(100);
    give(block);
    assert_free_aborts(block, "): not a live block (freed twice");
}

static void test_knuth_finds_a_pointer_into_a_block(void **state)
{
    (void)state;
    assert_pointers_into_a_block_abort("): not a live block (");
}

static void test_knuth_finds_an_overwritten_tag_beside_the_block(void **state)
{
    (void)state;
    char *block = take(100), *next = take(100);
    uint64_t tag = *(uint64_t *)(void *)(next - 8);
    memset(next - 8, 'x', 8);
    assert_free_aborts(block, "boundary tag(0x");
    assert_free_aborts(next, "or its tag was overwritten)");
    assert_false(heap_is_valid());
    *(uint64_t *)(void *)(next - 8) = tag;
}

static void test_knuth_finds_a_byte_written_past_the_end_when_asked(void **state)
{
    (void)state;
    char *block = take(100), *next = take(100);
    char *past_end = block + usable(block);
    const char tag = *past_end;
    *past_end = 's'; /* in its low bits the sign of a free block */
    assert_free_aborts(block, "the tag at its end was overwritten");
    assert_free_aborts(next, "boundary tag(0x");
    *past_end = tag;
    assert_free_succeeds(block);
    give(block);
    give(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HEAP_TEST(test_knuth_serves_aligned_blocks_with_two_tags_of_cost, plain),
        HEAP_TEST(test_knuth_minimum_block_is_four_words, plain),
        HEAP_TEST(test_knuth_grows_by_8_kib, plain),
        HEAP_TEST(test_knuth_grows_by_the_whole_request_whatever_the_wilderness_holds, plain),
        HEAP_TEST(test_knuth_begins_anew_where_memory_grows_and_nothing_is_free, plain),
        HEAP_TEST(test_knuth_merges_with_the_lower_neighbour_on_free, plain),
        HEAP_TEST(test_knuth_merges_with_the_upper_neighbour_on_free, plain),
        HEAP_TEST(test_knuth_merges_both_neighbours_on_free, plain),
        HEAP_TEST(test_knuth_keeps_a_remainder_below_four_words_in_the_block, plain),
        HEAP_TEST(test_knuth_cuts_from_the_start, plain),
        HEAP_TEST(test_knuth_cuts_from_the_end_when_asked, cuts_from_the_end),
        HEAP_TEST(test_knuth_cutting_links_nothing_anew, plain),
        HEAP_TEST(test_knuth_rounds_to_eight_when_asked, aligned_to_8),
        HEAP_TEST(test_knuth_search_starts_at_the_block_just_freed, plain),
        HEAP_TEST(test_knuth_leaves_the_wilderness_alone_while_others_fit, plain),
        HEAP_TEST(test_knuth_grows_before_a_search_that_would_be_hopeless, plain),
        HEAP_TEST(test_knuth_makes_no_hopeless_search_when_asked, short_searches),
        HEAP_TEST(test_knuth_looks_at_few_blocks_when_binned, bins),
        HEAP_TEST(test_knuth_finds_a_hole_behind_any_number_of_others_when_binned, bins),
        HEAP_TEST(test_knuth_joins_memory_that_adjoins_when_binned, bins),
        HEAP_TEST(test_knuth_grows_by_what_the_wilderness_lacks_when_binned, bins),
        HEAP_TEST(test_knuth_merges_with_the_lower_neighbour_on_free, bins),
        HEAP_TEST(test_knuth_merges_with_the_upper_neighbour_on_free, bins),
        HEAP_TEST(test_knuth_merges_both_neighbours_on_free, bins),
        HEAP_TEST(test_knuth_leaves_the_wilderness_alone_while_others_fit, bins),
        HEAP_TEST(test_knuth_resizes_into_a_free_upper_neighbour, bins),
        HEAP_TEST(test_knuth_does_not_merge_across_memory_that_does_not_adjoin, bins),
        HEAP_TEST(test_knuth_is_unchanged_when_memory_is_refused, bins),
        HEAP_TEST(test_knuth_finds_a_block_that_was_freed_before, bins),
        HEAP_TEST(test_knuth_keeps_the_rover_at_the_larger_block, plain),
        HEAP_TEST(test_knuth_counts_how_many_blocks_a_search_looked_at, plain),
        HEAP_TEST(test_knuth_resizes_into_a_free_upper_neighbour, plain),
        HEAP_TEST(test_knuth_sheds_what_a_smaller_size_does_not_need, plain),
        HEAP_TEST(test_knuth_gives_back_the_ends_of_an_aligned_block, plain),
        HEAP_TEST(test_knuth_does_not_merge_across_memory_that_does_not_adjoin, plain),
        HEAP_TEST(test_knuth_is_unchanged_when_memory_is_refused, plain),
        HEAP_TEST(test_knuth_finds_a_block_that_was_freed_before, plain),
        HEAP_TEST(test_knuth_finds_a_pointer_into_a_block, plain),
        HEAP_TEST(test_knuth_finds_an_overwritten_tag_beside_the_block, plain),
        HEAP_TEST(test_knuth_finds_a_byte_written_past_the_end_when_asked, looks_at_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
