/* SPDX-License-Identifier: MIT
 *
 * test_cartesian.c: what Stephenson's better fit is expected to do, case by case.
 */
#include "tests/unit/heap_unit.h"

enum { ARRAY_BYTES = 512 * 32, FIRST_BLOCK = ARRAY_BYTES + 16 };

static int begin_heap(void **state)
{
    (void)state;
    test_heap_init(&heap, &cartesian_policy, (const char *const[]){"counters=on", NULL});
    return 0;
}

static int begin_fast_heap(void **state)
{
    (void)state;
    test_heap_init(&heap, &cartesian_policy,
                   (const char *const[]){"counters=on", "tree=fast", NULL});
    return 0;
}

static void test_cartesian_puts_an_array_of_512_nodes_before_the_first_block(void **state)
{
    (void)state;
    char *block = take(24);
    assert_int_equal(block - heap.source.base, FIRST_BLOCK);
    assert_int_equal(end_of_memory(), 8 + ARRAY_BYTES + 4096);
}

static void test_cartesian_blocks_cost_one_word(void **state)
{
    (void)state;
    char *first = take(24), *second = take(8), *third = take(25);
    assert_int_equal(second - first, 32);
    assert_int_equal(third - second, 16);
    assert_int_equal(usable(third), 40);
    assert_int_equal(heap.policy->waste(heap.state, first).header_bytes, 8);
}

/* Holes of the given sizes, kept apart by live blocks, in order of address. */
static void make_holes(const size_t *sizes, size_t count, void **holes)
{
    for (size_t i = 0; i < count; i++) {
        holes[i] = take(sizes[i]);
        take(8);
    }
    for (size_t i = 0; i < count; i++)
        give(holes[i]);
}

static void test_cartesian_descends_to_the_shorter_child_that_fits(void **state)
{
    (void)state;
    void *holes[3];
    take(1400);
    make_holes((const size_t[]){200, 600, 400}, 3, holes);
    take(500); /* the root's children: 600 on the left, and the rest of the page */
    void *rest = take(380);
    assert_ptr_equal(rest, holes[2]);
    assert_ptr_equal(take(190), holes[0]);
}

static void test_cartesian_ties_go_left(void **state)
{
    (void)state;
    void *holes[3];
    make_holes((const size_t[]){104, 904, 104}, 3, holes);
    take(2000);
    assert_ptr_equal(take(104), holes[0]);
    assert_ptr_equal(take(104), holes[2]);
}

static void test_cartesian_hands_out_the_low_end(void **state)
{
    (void)state;
    void *hole = take(1000);
    take(8);
    give(hole);
    char *low = take(100);
    assert_ptr_equal(low, hole);
    assert_ptr_equal(take(100), low + 112);
}

static void test_cartesian_splits_only_if_the_rest_exceeds_the_smallest_block(void **state)
{
    (void)state;
    void *hole = take(104);
    take(8);
    give(hole);
    assert_ptr_equal(take(88), hole);
    assert_int_equal(usable(hole), 104); /* 16 bytes over stay */
    give(hole);
    assert_ptr_equal(take(72), hole);
    assert_int_equal(usable(hole), 72); /* 32 do not */
}

static void test_cartesian_merges_both_neighbours_on_free(void **state)
{
    (void)state;
    void *lower = take(100), *middle = take(100), *upper = take(100);
    take(8);
    give(lower);
    give(upper);
    uint64_t blocks = statistics().free_blocks, merges = statistics().merges;
    give(middle);
    assert_int_equal(statistics().free_blocks, blocks - 1);
    assert_int_equal(statistics().merges, merges + 2);
    assert_ptr_equal(take(300), lower);
}

static void test_cartesian_takes_another_array_when_nodes_run_out(void **state)
{
    (void)state;
    static void *blocks[1100];
    for (int i = 0; i < 1100; i++)
        blocks[i] = take(100);
    size_t end = end_of_memory();
    for (int i = 0; i < 1100; i += 2)
        give(blocks[i]);
    assert_int_equal(end_of_memory(), end + ARRAY_BYTES);
    assert_valid();
    for (int i = 1; i < 1100; i += 2)
        give(blocks[i]);
    assert_int_equal(statistics().free_blocks, 1);
}

static enum source_decision refuse(void *argument)
{
    (void)argument;
    return SOURCE_REFUSE;
}

static void test_cartesian_loses_no_block_when_a_node_is_refused(void **state)
{
    (void)state;
    static void *blocks[1100];
    for (int i = 0; i < 1100; i++)
        blocks[i] = take(100);
    heap.source.decide = refuse;
    for (int i = 0; i < 1100; i += 2)
        give(blocks[i]);
    assert_valid();
    assert_true(statistics().free_blocks <= 512);
    heap.source.decide = NULL;
    for (int i = 1; i < 1100; i += 2)
        give(blocks[i]);
    take(8);
    assert_int_equal(statistics().free_blocks, 1);
}

/* The depth of a tree of hundreds of blocks of one size. */
static uint64_t depth_of_equal_blocks(void)
{
    static void *blocks[1000];
    take(200000);
    give(take(112 * 1000)); /* room for all, so that none gets a remainder */
    for (int i = 0; i < 1000; i++)
        blocks[i] = take(104);
    for (int i = 0; i < 1000; i += 2)
        give(blocks[i]);
    assert_in_range(statistics().free_blocks, 500, 510);
    return statistics().tree_depth;
}

static void test_cartesian_equal_blocks_form_a_chain_in_order(void **state)
{
    (void)state;
    assert_true(depth_of_equal_blocks() >= 500);
}

static void test_cartesian_fast_tree_of_equal_blocks_is_shallow(void **state)
{
    (void)state;
    assert_true(depth_of_equal_blocks() < 50);
}

/* Where 200 blocks go that are taken from among 1,000 equal free ones: offsets from the start. */
static void offsets_among_equals(size_t *offsets)
{
    void *blocks[2000];
    begin_fast_heap(NULL);
    for (int i = 0; i < 2000; i++)
        blocks[i] = take(104);
    for (int i = 0; i < 2000; i += 2)
        give(blocks[i]);
    for (int i = 0; i < 200; i++)
        offsets[i] = (size_t)((char *)take(56) - heap.source.base);
    test_heap_end(&heap);
}

static void test_cartesian_fast_tree_is_the_same_wherever_its_memory_lies(void **state)
{
    (void)state;
    size_t here[200], there[200];
    char *start = heap.source.base;
    test_heap_end(&heap);
    offsets_among_equals(here);
    assert_ptr_not_equal(mmap(start, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                         MAP_FAILED); /* so that the next heap begins elsewhere */
    offsets_among_equals(there);
    assert_memory_equal(here, there, sizeof here);
    begin_fast_heap(NULL);
}

static void test_cartesian_resizes_into_a_free_upper_neighbour(void **state)
{
    (void)state;
    char *block = take(100), *upper = take(200);
    take(8);
    give(upper);
    assert_true(heap.policy->resize(heap.state, block, 250));
    assert_true(usable(block) >= 250);
    assert_false(heap.policy->resize(heap.state, block, 5000));
    assert_valid();
    assert_true(heap.policy->resize(heap.state, block, 50));
    assert_int_equal(usable(block), 56);
}

static void test_cartesian_gives_back_the_ends_of_an_aligned_block(void **state)
{
    (void)state;
    void *block = heap.policy->alloc_aligned(heap.state, 1024, 100);
    assert_int_equal((uintptr_t)block % 1024, 0);
    assert_in_range(usable(block), 104, 120);
    assert_valid();
    give(block);
    assert_int_equal(statistics().free_blocks, 1);
}

static void test_cartesian_is_unchanged_when_memory_is_refused(void **state)
{
    (void)state;
    take(100);
    heap.source.decide = refuse;
    assert_null(take(100000));
    assert_null(heap.policy->alloc_aligned(heap.state, 65536, 10));
    assert_null(take((size_t)PTRDIFF_MAX));
}

static void test_cartesian_finds_a_block_that_was_freed_before(void **state)
{
    (void)state;
    void *first = take(100), *second = take(100);
    take(100);
    give(first);
    give(second);
    assert_true(free_aborts(first));
    assert_true(free_aborts(second));
}

static void test_cartesian_finds_a_pointer_into_a_block(void **state)
{
    (void)state;
    char *block = take(100);
    memset(block, 0xA, 100);
    assert_true(free_aborts(block + 16));
    assert_true(free_aborts(block + 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_heap, end_heap)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_cartesian_puts_an_array_of_512_nodes_before_the_first_block),
        TEST(test_cartesian_blocks_cost_one_word),
        TEST(test_cartesian_descends_to_the_shorter_child_that_fits),
        TEST(test_cartesian_ties_go_left),
        TEST(test_cartesian_hands_out_the_low_end),
        TEST(test_cartesian_splits_only_if_the_rest_exceeds_the_smallest_block),
        TEST(test_cartesian_merges_both_neighbours_on_free),
        TEST(test_cartesian_takes_another_array_when_nodes_run_out),
        TEST(test_cartesian_loses_no_block_when_a_node_is_refused),
        TEST(test_cartesian_equal_blocks_form_a_chain_in_order),
        cmocka_unit_test_setup_teardown(test_cartesian_fast_tree_of_equal_blocks_is_shallow,
                                        begin_fast_heap, end_heap),
        cmocka_unit_test_setup_teardown(
            test_cartesian_fast_tree_is_the_same_wherever_its_memory_lies, begin_fast_heap,
            end_heap),
        TEST(test_cartesian_resizes_into_a_free_upper_neighbour),
        TEST(test_cartesian_gives_back_the_ends_of_an_aligned_block),
        TEST(test_cartesian_is_unchanged_when_memory_is_refused),
        TEST(test_cartesian_finds_a_block_that_was_freed_before),
        TEST(test_cartesian_finds_a_pointer_into_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
