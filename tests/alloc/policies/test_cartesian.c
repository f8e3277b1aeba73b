/* SPDX-License-Identifier: MIT
 *
 * test_cartesian.c: what Stephenson's better fit is expected to do, case by case.
 */
#include "tests/unit/heap_unit.h"

enum { ARRAY_BYTES = 512 * 32, FIRST_BLOCK = ARRAY_BYTES + 16 };

static const struct heap_case plain = {&cartesian_policy, {"counters=on"}};
static const struct heap_case aligned_to_8 = {&cartesian_policy, {"align=8"}};
static const struct heap_case fast_tree = {&cartesian_policy, {"counters=on", "tree=fast"}};

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

/* As SunOS: the size stands in the block too, wherever it changes. */
static void test_cartesian_free_blocks_keep_their_size_as_published(void **state)
{
    (void)state;
    char *hole = take(1000), *next = take(104);
    take(8);
    give(hole);
    assert_int_equal(tag_size(tag_read(hole - 8)), 1008);
    take(104); /* cut from the low end */
    assert_int_equal(tag_size(tag_read(hole + 112 - 8)), 1008 - 112);
    give(next);
    assert_int_equal(tag_size(tag_read(hole + 112 - 8)), 1008);
}

static void test_cartesian_sheds_from_the_smallest_block_on(void **state)
{
    (void)state;
    void *block = take(104);
    take(8);
    assert_true(resizes_in_place(block, 88));
    assert_int_equal(usable(block), 88); /* where a malloc keeps 16 bytes over */
    assert_true(heap_is_valid());
}

/* The neighbour leaves the tree and the rest of it comes back, below its equals. */
static void test_cartesian_growth_frees_the_rest_of_the_neighbour(void **state)
{
    (void)state;
    char *left = take(200), *block, *neighbour, *equal;
    take(8);
    block = take(104);
    neighbour = take(312);
    take(8);
    equal = take(200);
    take(8);
    give(left);
    give(equal);
    give(neighbour);
    assert_true(resizes_in_place(block, 216)); /* leaves 208 of it, as much as the others have */
    assert_true(heap_is_valid());
    assert_ptr_equal(take(200), block + 224);
}

/* As the machines of 1992: rounding to 8. */
static void test_cartesian_rounds_to_eight_when_asked(void **state)
{
    (void)state;
    char *first = take(12), *second = take(12);
    assert_ptr_equal(second, first + 24);
    assert_int_equal(usable(first), 16);
    for (size_t alignment = 16; alignment <= 4096; alignment *= 2)
        assert_int_equal((uintptr_t)take_aligned(alignment, 20) % alignment, 0);
    assert_true(heap_is_valid());
}

static void test_cartesian_merges_both_neighbours_on_free(void **state)
{
    (void)state;
    assert_merges_both_neighbours(100, 300);
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
    assert_true(heap_is_valid());
    for (int i = 1; i < 1100; i += 2)
        give(blocks[i]);
    assert_int_equal(statistics().free_blocks, 1);
}

static void test_cartesian_loses_no_block_when_a_node_is_refused(void **state)
{
    (void)state;
    static void *blocks[1100];
    for (int i = 0; i < 1100; i++)
        blocks[i] = take(100);
    heap.source.decide = refuse_all;
    for (int i = 0; i < 1100; i += 2)
        give(blocks[i]);
    assert_true(heap_is_valid());
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

/* Sizes that increase with the address: by size alone a chain. */
static void test_cartesian_fast_tree_of_increasing_blocks_is_shallow(void **state)
{
    (void)state;
    enum { STEPS = 2000 };
    void *steps[STEPS];
    for (size_t i = 0; i < STEPS; i++) {
        steps[i] = take(1000 + 16 * i);
        take(16);
    }
    for (size_t i = 0; i < STEPS; i++)
        give(steps[i]);
    assert_true(statistics().free_blocks >= STEPS);
    assert_true(statistics().tree_depth < STEPS / 4);
}

/* Where 200 blocks go that are taken from among 1,000 equal free ones: offsets from the start. */
static void offsets_among_equals(size_t *offsets)
{
    void *blocks[2000];
    test_heap_init(&heap, fast_tree.policy, fast_tree.options);
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
    test_heap_init(&heap, fast_tree.policy, fast_tree.options);
}

/* Address space for a heap of hundreds of GiB, of which a few pages are touched. */
static void widen_source(void)
{
    static const size_t WIDE_BYTES = (size_t)256 << 30;
    void *base = mmap(NULL, WIDE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        skip(); /* this process may not have so much address space */
    munmap(heap.source.base, SOURCE_BYTES);
    heap.source.base = base;
    heap.source.end = heap.source.base + WIDE_BYTES;
}

/* The last bin of free_bins.h starts at 15 GiB and has no end. */
static void test_cartesian_blocks_of_the_last_bin_do_not_overlap(void **state)
{
    (void)state;
    widen_source();
    for (size_t gib = 14; gib < 20; gib++) {
        size_t size = (gib << 30) + 100;
        char *block = take(size), *next = take(8);
        assert_in_range(usable(block), size, size + 64);
        assert_true(next < block || next >= block + size);
    }
}

static void test_cartesian_holes_of_the_last_bin_serve_what_fits(void **state)
{
    (void)state;
    void *holes[5];
    widen_source();
    make_holes((const size_t[]){(size_t)18 << 30, (size_t)16 << 30, (size_t)20 << 30,
                                (size_t)17 << 30, (size_t)19 << 30},
               5, holes);
    assert_true(heap_is_valid());
    heap.source.decide = refuse_all;
    assert_null(heap_alloc((size_t)21 << 30));
    assert_ptr_equal(take(((size_t)19 << 30) + (1 << 29)), holes[2]);
    assert_ptr_equal(take(((size_t)18 << 30) + (1 << 29)), holes[4]);
    assert_null(heap_alloc((size_t)19 << 30));
    assert_ptr_equal(take(((size_t)17 << 30) + (1 << 29)), holes[0]);
    assert_ptr_equal(take(((size_t)16 << 30) + (1 << 29)), holes[3]);
    assert_ptr_equal(take(((size_t)15 << 30) + (1 << 29)), holes[1]);
    for (int i = 0; i < 5; i++)
        give(holes[i]);
    assert_true(heap_is_valid());
}

static void test_cartesian_resizes_into_a_free_upper_neighbour(void **state)
{
    (void)state;
    void *block = assert_resizes_into_a_free_upper_neighbour();
    assert_true(resizes_in_place(block, 50));
    assert_int_equal(usable(block), 56);
}

static void test_cartesian_gives_back_the_ends_of_an_aligned_block(void **state)
{
    (void)state;
    assert_gives_back_the_ends_of_an_aligned_block(104, 120);
}

static void test_cartesian_is_unchanged_when_memory_is_refused(void **state)
{
    (void)state;
    assert_unchanged_when_memory_is_refused();
}

static void test_cartesian_finds_a_block_that_was_freed_before(void **state)
{
    (void)state;
    void *first = take(100), *second = take(100);
    take(100);
    give(first);
    give(second);
    assert_free_aborts(first, "): not a live block (freed twice");
    assert_free_aborts(second, "): not a live block (freed twice");
}

static void test_cartesian_finds_a_pointer_into_a_block(void **state)
{
    (void)state;
    assert_pointers_into_a_block_abort("): not a live block (");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HEAP_TEST(test_cartesian_puts_an_array_of_512_nodes_before_the_first_block, plain),
        HEAP_TEST(test_cartesian_blocks_cost_one_word, plain),
        HEAP_TEST(test_cartesian_descends_to_the_shorter_child_that_fits, plain),
        HEAP_TEST(test_cartesian_ties_go_left, plain),
        HEAP_TEST(test_cartesian_hands_out_the_low_end, plain),
        HEAP_TEST(test_cartesian_splits_only_if_the_rest_exceeds_the_smallest_block, plain),
        HEAP_TEST(test_cartesian_free_blocks_keep_their_size_as_published, plain),
        HEAP_TEST(test_cartesian_sheds_from_the_smallest_block_on, plain),
        HEAP_TEST(test_cartesian_growth_frees_the_rest_of_the_neighbour, plain),
        HEAP_TEST(test_cartesian_rounds_to_eight_when_asked, aligned_to_8),
        HEAP_TEST(test_cartesian_merges_both_neighbours_on_free, plain),
        HEAP_TEST(test_cartesian_takes_another_array_when_nodes_run_out, plain),
        HEAP_TEST(test_cartesian_loses_no_block_when_a_node_is_refused, plain),
        HEAP_TEST(test_cartesian_equal_blocks_form_a_chain_in_order, plain),
        HEAP_TEST(test_cartesian_fast_tree_of_equal_blocks_is_shallow, fast_tree),
        HEAP_TEST(test_cartesian_fast_tree_of_increasing_blocks_is_shallow, fast_tree),
        HEAP_TEST(test_cartesian_fast_tree_is_the_same_wherever_its_memory_lies, fast_tree),
        HEAP_TEST(test_cartesian_blocks_of_the_last_bin_do_not_overlap, plain),
        HEAP_TEST(test_cartesian_blocks_of_the_last_bin_do_not_overlap, fast_tree),
        HEAP_TEST(test_cartesian_holes_of_the_last_bin_serve_what_fits, plain),
        HEAP_TEST(test_cartesian_holes_of_the_last_bin_serve_what_fits, fast_tree),
        HEAP_TEST(test_cartesian_resizes_into_a_free_upper_neighbour, plain),
        HEAP_TEST(test_cartesian_gives_back_the_ends_of_an_aligned_block, plain),
        HEAP_TEST(test_cartesian_is_unchanged_when_memory_is_refused, plain),
        HEAP_TEST(test_cartesian_finds_a_block_that_was_freed_before, plain),
        HEAP_TEST(test_cartesian_finds_a_pointer_into_a_block, plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
