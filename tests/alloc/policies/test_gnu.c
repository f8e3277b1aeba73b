/* SPDX-License-Identifier: MIT
 *
 * test_gnu.c: what Haertel's hybrid is expected to do, case by case.
 */
#include "tests/unit/heap_unit.h"

enum { PAGE = 4096, TABLE_BYTES = 1024 * 24 };

static const struct heap_case plain = {&gnu_policy, {"counters=on"}};
static const struct heap_case with_parts = {&gnu_policy,
                                            {"parts=on"}}; /* fragments above half a page */

static const struct heap_case binned = {&gnu_policy, {"counters=on", "clusters=binned"}};

static size_t offset(const void *block)
{
    return (size_t)((const char *)block - heap.source.base);
}

static void test_gnu_serves_powers_of_two_without_a_header(void **state)
{
    (void)state;
    void *first = take(17);
    assert_int_equal(usable(first), 32);
    assert_int_equal(usable(take(0)), 16);
    assert_int_equal(usable(take(2048)), 2048);
    assert_int_equal(usable(take(2049)), PAGE);
    assert_int_equal(heap.policy->waste(heap.state, first).header_bytes, 0);
}

static void test_gnu_table_of_1024_entries_comes_first(void **state)
{
    (void)state;
    assert_int_equal(offset(take(1)), TABLE_BYTES);
    assert_int_equal(end_of_memory(), TABLE_BYTES + PAGE);
}

static void test_gnu_hands_out_the_first_fragment_then_the_others_from_the_last(void **state)
{
    (void)state;
    size_t chunk = offset(take(1000));
    assert_int_equal(chunk % PAGE, 0);
    assert_int_equal(offset(take(1000)), chunk + 3072);
    assert_int_equal(offset(take(1000)), chunk + 2048);
    assert_int_equal(offset(take(1000)), chunk + 1024);
    assert_int_equal(offset(take(1000)), chunk + PAGE);
}

static void test_gnu_puts_a_freed_fragment_behind_the_first_free_one_of_its_chunk(void **state)
{
    (void)state;
    void *blocks[6];
    for (int i = 0; i < 6; i++)
        blocks[i] = take(512);
    give(blocks[3]);
    give(blocks[4]); /* not at once: behind the chunk's first, which is number 2 */
    char *chunk = blocks[0];
    assert_ptr_equal(take(512), chunk + 2 * 512);
    assert_ptr_equal(take(512), blocks[4]);
    assert_ptr_equal(take(512), blocks[3]);
    assert_ptr_equal(take(512), chunk + 512);
}

static void test_gnu_releases_a_chunk_when_its_last_fragment_is_freed(void **state)
{
    (void)state;
    void *blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = take(512);
    take(PAGE);
    for (int i = 0; i < 7; i++)
        give(blocks[i]);
    assert_int_equal(statistics().free_blocks, 7);
    give(blocks[7]);
    assert_int_equal(statistics().free_blocks, 1);
    assert_int_equal(statistics().free_bytes, PAGE);
    assert_ptr_equal(take(3000), blocks[0]);
}

static void test_gnu_search_goes_on_where_the_last_one_ended(void **state)
{
    (void)state;
    void *holes[3];
    for (int i = 0; i < 3; i++) {
        holes[i] = take(3 * PAGE);
        take(PAGE);
    }
    give(holes[2]);
    give(holes[0]);
    give(holes[1]);
    assert_ptr_equal(take(PAGE), holes[1]); /* freed last */
    assert_ptr_equal(take(3 * PAGE), holes[2]);
    assert_ptr_equal(take(3 * PAGE), holes[0]); /* round the end */
    assert_ptr_equal(take(2 * PAGE), (char *)holes[1] + PAGE);
}

static void test_gnu_merges_both_neighbours_on_free(void **state)
{
    (void)state;
    assert_merges_both_neighbours(PAGE, 3 * PAGE);
    assert_int_equal(statistics().free_blocks, 0);
}

static void test_gnu_returns_eight_free_pages_at_the_end(void **state)
{
    (void)state;
    take(PAGE);
    size_t end = end_of_memory();
    void *seven = take(7 * PAGE);
    give(seven);
    assert_int_equal(end_of_memory(), end + (size_t)7 * PAGE);
    void *eight = take(8 * PAGE);
    assert_ptr_equal(eight, seven); /* grows by what the last cluster lacks */
    give(eight);
    assert_int_equal(end_of_memory(), end);
}

static void test_gnu_trim_returns_a_smaller_end(void **state)
{
    (void)state;
    take(PAGE);
    size_t end = end_of_memory();
    give(take(3 * PAGE));
    assert_int_equal(heap.policy->trim(heap.state), 3 * PAGE);
    assert_int_equal(end_of_memory(), end);
    assert_int_equal(heap.policy->trim(heap.state), 0);
    assert_true(heap_is_valid());
}

static void test_gnu_doubles_the_table_and_frees_the_outgrown_one(void **state)
{
    (void)state;
    take(1000 * PAGE);
    assert_int_equal(statistics().free_blocks, 0);
    void *block = take(100 * PAGE);
    assert_true(heap_is_valid());
    assert_int_equal(end_of_memory(), TABLE_BYTES + 1100 * PAGE + 2 * TABLE_BYTES);
    assert_int_equal(statistics().free_bytes, TABLE_BYTES);
    assert_true(offset(block) > offset(take(TABLE_BYTES))); /* where the table was */
}

static void test_gnu_resize_keeps_a_fragment_while_more_than_half_is_needed(void **state)
{
    (void)state;
    void *block = take(1000);
    assert_true(resizes_in_place(block, 513));
    assert_true(resizes_in_place(block, 1024));
    assert_false(resizes_in_place(block, 512));
    assert_false(resizes_in_place(block, 1025));
}

static void test_gnu_sheds_pages_at_the_end_of_a_run(void **state)
{
    (void)state;
    void *run = take(5 * PAGE);
    take(PAGE);
    assert_true(resizes_in_place(run, 2 * PAGE));
    assert_int_equal(usable(run), 2 * PAGE);
    assert_int_equal(statistics().free_bytes, 3 * PAGE);
}

static void test_gnu_realloc_grows_into_free_neighbours(void **state)
{
    (void)state;
    char *below = take(2 * PAGE), *run = take(2 * PAGE);
    take(PAGE);
    memset(run, 'a', 2 * PAGE);
    give(below);
    char *moved = heap_resize(run, 4 * PAGE);
    assert_ptr_equal(moved, below); /* overlapping itself */
    for (int i = 0; i < 2 * PAGE; i++)
        assert_int_equal(moved[i], 'a');
}

static void test_gnu_realloc_that_is_refused_leaves_the_run_where_it_was(void **state)
{
    (void)state;
    char *below = take(2 * PAGE), *run = take(2 * PAGE);
    take(PAGE);
    memset(run, 'a', 2 * PAGE);
    give(below);
    heap.source.decide = refuse_all;
    assert_null(heap_resize(run, 100 * PAGE));
    assert_true(heap_is_valid());
    assert_int_equal(usable(run), 2 * PAGE);
    assert_int_equal(statistics().free_bytes, 2 * PAGE);
    for (int i = 0; i < 2 * PAGE; i++)
        assert_int_equal(run[i], 'a');
}

static void test_gnu_is_unchanged_when_memory_is_refused(void **state)
{
    (void)state;
    heap.source.decide = refuse_all;
    assert_null(heap_alloc(1));
    heap.source.decide = NULL;
    assert_unchanged_when_memory_is_refused();
}

static void test_gnu_aligned_blocks_are_powers_of_two_or_trimmed_runs(void **state)
{
    (void)state;
    void *fragment = heap.policy->alloc_aligned(heap.state, 256, 10);
    assert_int_equal((uintptr_t)fragment % 256, 0);
    assert_int_equal(usable(fragment), 256);
    void *run = heap.policy->alloc_aligned(heap.state, 16 * PAGE, 3 * PAGE);
    assert_int_equal((uintptr_t)run % (16 * PAGE), 0);
    assert_int_equal(usable(run), 3 * PAGE);
    assert_true(heap_is_valid());
}

static void test_gnu_numbers_pages_across_memory_that_does_not_adjoin(void **state)
{
    (void)state;
    void *before = take(2 * PAGE);
    begin_test_segment(&heap.source, heap.source.base + (1 << 21));
    void *after = take(2 * PAGE);
    assert_int_equal(offset(after), 1 << 21);
    give(before);
    give(after);
    assert_true(heap_is_valid());
    assert_ptr_equal(take(2 * PAGE), after);
    assert_ptr_equal(take(2 * PAGE), before);
}

static void test_gnu_parts_serve_four_sizes_to_a_doubling_up_to_14_kib(void **state)
{
    (void)state;
    static const size_t sizes[] = {2048, 2560, 3072,  3584,  PAGE,  5120,     6144,
                                   7168, 8192, 10240, 12288, 14336, 4 * PAGE, 5 * PAGE};
    for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(usable(take(sizes[i - 1] + 1)), sizes[i]);
        assert_int_equal(usable(take(sizes[i])), sizes[i]);
    }
}

static void test_gnu_parts_of_a_chunk_are_released_together(void **state)
{
    (void)state;
    char *blocks[4];
    take(PAGE);
    for (int i = 0; i < 4; i++)
        memset(blocks[i] = take(5000), i, 5120);
    take(PAGE);
    assert_ptr_equal(blocks[1], blocks[0] + 3 * 5120);
    assert_ptr_equal(blocks[3], blocks[0] + 5120);
    for (int i = 0; i < 3; i++)
        give(blocks[i]);
    assert_int_equal(statistics().free_blocks, 3);
    assert_int_equal(blocks[3][5119], 3);
    give(blocks[3]);
    assert_int_equal(statistics().free_blocks, 1);
    assert_int_equal(statistics().free_bytes, 5 * PAGE);
    assert_ptr_equal(take(5 * PAGE), blocks[0]);
}

static void test_gnu_parts_are_found_from_any_page_of_their_chunk(void **state)
{
    (void)state;
    char *blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = take(3584);
    for (int i = 0; i < 8; i++) {
        assert_free_aborts(blocks[i] + 16, "): not a block (never handed out, or points into one)");
        assert_free_aborts(blocks[i] + 512,
                           "): not a block (never handed out, or points into one)");
        assert_int_equal(usable(blocks[i]), 3584);
        assert_free_succeeds(blocks[i]);
    }
    for (int i = 0; i < 8; i++)
        give(blocks[i]);
}

static void test_gnu_parts_keep_alignment_to_pages_and_runs(void **state)
{
    (void)state;
    for (size_t alignment = 32; alignment <= 4 * PAGE; alignment *= 2)
        for (size_t size = 2000; size < 5 * PAGE; size += 500) {
            void *block = heap.policy->alloc_aligned(heap.state, alignment, size);
            assert_int_equal((uintptr_t)block % alignment, 0);
            assert_true(usable(block) >= size);
        }
}

static void test_gnu_parts_resize_while_more_than_half_is_needed(void **state)
{
    (void)state;
    char *block = take(5120);
    memset(block, 7, 5120);
    assert_true(resizes_in_place(block, 2561));
    assert_false(resizes_in_place(block, 2560));
    assert_false(resizes_in_place(block, 5121));
    block = heap_resize(block, 5 * PAGE);
    assert_int_equal(usable(block), 5 * PAGE);
    block = heap_resize(block, 7000); /* no run of two pages */
    assert_int_equal(usable(block), 7168);
    for (int i = 0; i < 5120; i++)
        assert_int_equal(block[i], 7);
}

/* Runs of 65 to 70 pages fall into one bin. */
static void test_gnu_looks_at_few_clusters_when_binned(void **state)
{
    (void)state;
    enum { RUNS = 300 };
    void *runs[RUNS];
    for (int i = 0; i < RUNS; i++) {
        runs[i] = take(65 * PAGE);
        take(PAGE);
    }
    for (int i = 0; i < RUNS; i++)
        give(runs[i]);
    for (size_t pages = 2; pages < 140; pages++)
        take(pages * PAGE);
    struct heap_statistics found = statistics();
    assert_true(found.searches > 0);
    for (int i = 7; i < 16; i++) /* 2^6 is the limit */
        assert_int_equal(found.search_lengths[i], 0);
}

static void test_gnu_takes_the_end_of_memory_last_when_binned(void **state)
{
    (void)state;
    char *hole = take(3 * PAGE);
    take(PAGE);
    char *last = take(6 * PAGE);
    give(hole);
    give(last);
    assert_ptr_equal(take(2 * PAGE), hole);
    assert_ptr_equal(take(2 * PAGE), last);
}

static void test_gnu_takes_what_lies_before_a_gap_first_when_binned(void **state)
{
    (void)state;
    void *before = take(2 * PAGE);
    begin_test_segment(&heap.source, heap.source.base + (1 << 21));
    void *after = take(2 * PAGE);
    assert_int_equal(offset(after), 1 << 21);
    give(before); /* ended where the memory ended, and does no more */
    give(after);
    assert_true(heap_is_valid());
    assert_ptr_equal(take(2 * PAGE), before);
    assert_ptr_equal(take(2 * PAGE), after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HEAP_TEST(test_gnu_serves_powers_of_two_without_a_header, plain),
        HEAP_TEST(test_gnu_table_of_1024_entries_comes_first, plain),
        HEAP_TEST(test_gnu_hands_out_the_first_fragment_then_the_others_from_the_last, plain),
        HEAP_TEST(test_gnu_puts_a_freed_fragment_behind_the_first_free_one_of_its_chunk, plain),
        HEAP_TEST(test_gnu_releases_a_chunk_when_its_last_fragment_is_freed, plain),
        HEAP_TEST(test_gnu_search_goes_on_where_the_last_one_ended, plain),
        HEAP_TEST(test_gnu_merges_both_neighbours_on_free, plain),
        HEAP_TEST(test_gnu_returns_eight_free_pages_at_the_end, plain),
        HEAP_TEST(test_gnu_trim_returns_a_smaller_end, plain),
        HEAP_TEST(test_gnu_doubles_the_table_and_frees_the_outgrown_one, plain),
        HEAP_TEST(test_gnu_resize_keeps_a_fragment_while_more_than_half_is_needed, plain),
        HEAP_TEST(test_gnu_sheds_pages_at_the_end_of_a_run, plain),
        HEAP_TEST(test_gnu_realloc_grows_into_free_neighbours, plain),
        HEAP_TEST(test_gnu_realloc_that_is_refused_leaves_the_run_where_it_was, plain),
        HEAP_TEST(test_gnu_is_unchanged_when_memory_is_refused, plain),
        HEAP_TEST(test_gnu_aligned_blocks_are_powers_of_two_or_trimmed_runs, plain),
        HEAP_TEST(test_gnu_numbers_pages_across_memory_that_does_not_adjoin, plain),
        HEAP_TEST(test_gnu_looks_at_few_clusters_when_binned, binned),
        HEAP_TEST(test_gnu_takes_the_end_of_memory_last_when_binned, binned),
        HEAP_TEST(test_gnu_releases_a_chunk_when_its_last_fragment_is_freed, binned),
        HEAP_TEST(test_gnu_merges_both_neighbours_on_free, binned),
        HEAP_TEST(test_gnu_returns_eight_free_pages_at_the_end, binned),
        HEAP_TEST(test_gnu_trim_returns_a_smaller_end, binned),
        HEAP_TEST(test_gnu_doubles_the_table_and_frees_the_outgrown_one, binned),
        HEAP_TEST(test_gnu_sheds_pages_at_the_end_of_a_run, binned),
        HEAP_TEST(test_gnu_is_unchanged_when_memory_is_refused, binned),
        HEAP_TEST(test_gnu_aligned_blocks_are_powers_of_two_or_trimmed_runs, binned),
        HEAP_TEST(test_gnu_takes_what_lies_before_a_gap_first_when_binned, binned),
        HEAP_TEST(test_gnu_parts_serve_four_sizes_to_a_doubling_up_to_14_kib, with_parts),
        HEAP_TEST(test_gnu_parts_of_a_chunk_are_released_together, with_parts),
        HEAP_TEST(test_gnu_parts_are_found_from_any_page_of_their_chunk, with_parts),
        HEAP_TEST(test_gnu_parts_keep_alignment_to_pages_and_runs, with_parts),
        HEAP_TEST(test_gnu_parts_resize_while_more_than_half_is_needed, with_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
