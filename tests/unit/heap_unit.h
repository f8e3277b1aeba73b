/* SPDX-License-Identifier: MIT
 *
 * heap_unit.h: a fresh heap around each cmocka test of one policy, and what every policy must do.
 */
#ifndef ALLOTROPE_TESTS_UNIT_HEAP_UNIT_H
#define ALLOTROPE_TESTS_UNIT_HEAP_UNIT_H

#include "tests/unit/unit.h"

#include "tests/unit/heap_allocator.h"

/* What a test begins with. */
struct heap_case {
    const struct heap_policy *policy;
    const char *options[4]; /* KEY=VALUE */
};

static size_t block_alignment; /* of what the heap hands out */

static inline int begin_heap(void **state)
{
    const struct heap_case *wanted = *state;
    test_heap_init(&heap, wanted->policy, wanted->options);
    block_alignment = BLOCK_ALIGNMENT;
    for (const char *const *option = wanted->options; *option; option++)
        if (strcmp(*option, "align=8") == 0)
            block_alignment = 8;
    return 0;
}

static inline int end_heap(void **state)
{
    (void)state;
    assert_true(heap_is_valid());
    test_heap_end(&heap);
    return 0;
}

/* A test with a heap of that case. */
#define HEAP_TEST(test, wanted) \
    cmocka_unit_test_prestate_setup_teardown(test, begin_heap, end_heap, (void *)&(wanted))

static inline void *take(size_t size)
{
    void *block = heap_alloc(size);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % block_alignment, 0);
    return block;
}

static inline void *take_aligned(size_t alignment, size_t size)
{
    void *block = heap.policy->alloc_aligned(heap.state, alignment, size);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % alignment, 0);
    return block;
}

static inline void give(void *block)
{
    heap_free(block);
}

static inline size_t usable(const void *block)
{
    return heap_usable_size(block);
}

static inline bool resizes_in_place(void *block, size_t size)
{
    return heap.policy->resize(heap.state, block, size);
}

static inline struct heap_statistics statistics(void)
{
    struct heap_statistics result = {0};
    heap.policy->statistics(heap.state, &result);
    return result;
}

/* Where memory ends, relative to its start. */
static inline size_t end_of_memory(void)
{
    char *start, *end;
    bool any = heap.source.pages.segment(&heap.source.pages, 0, &start, &end);
    return any ? (size_t)(end - start) : 0;
}

static inline enum source_decision refuse_all(void *argument)
{
    (void)argument;
    return SOURCE_REFUSE;
}

static inline void free_block(void *block)
{
    give(block);
}

/* The heap is as it was before: the fault happens in a child. text: of the line that is said. */
static inline void assert_free_aborts(void *block, const char *text)
{
    assert_aborts(free_block, block, text);
}

static inline void assert_free_succeeds(void *block)
{
    assert_child_succeeds(free_block, block);
}

static inline void assert_pointers_into_a_block_abort(const char *text)
{
    char *block = take(100);
    memset(block, 0xA, 100);
    assert_free_aborts(block + 16, text);
    assert_free_aborts(block + 1, text);
}

/* merged: what only the three blocks together hold. */
static inline void assert_merges_both_neighbours(size_t size, size_t merged)
{
    void *lower = take(size), *middle = take(size), *upper = take(size);
    take(size);
    give(lower);
    give(upper);
    struct heap_statistics before = statistics();
    give(middle);
    assert_int_equal(statistics().free_blocks, before.free_blocks - 1);
    assert_int_equal(statistics().merges, before.merges + 2);
    assert_ptr_equal(take(merged), lower);
}

/* Returns the block, which has grown. */
static inline void *assert_resizes_into_a_free_upper_neighbour(void)
{
    void *block = take(100), *upper = take(200);
    take(8);
    give(upper);
    assert_true(resizes_in_place(block, 250));
    assert_true(usable(block) >= 250);
    assert_true(heap_is_valid());
    assert_false(resizes_in_place(block, 5000));
    return block;
}

static inline void assert_gives_back_the_ends_of_an_aligned_block(size_t least, size_t most)
{
    void *block = take_aligned(1024, 100);
    assert_in_range(usable(block), least, most);
    assert_true(heap_is_valid());
    give(block);
    assert_int_equal(statistics().free_blocks, 1);
}

static inline void assert_unchanged_when_memory_is_refused(void)
{
    void *block = take(100);
    heap.source.decide = refuse_all;
    uint64_t free_bytes = statistics().free_bytes;
    assert_null(heap_alloc(100000));
    assert_null(heap_alloc_aligned(65536, 10));
    assert_null(heap_alloc((size_t)PTRDIFF_MAX));
    assert_int_equal(statistics().free_bytes, free_bytes);
    give(block);
}

#endif
