/* SPDX-License-Identifier: MIT
 *
 * test_slow_free.c: which way a free takes that the fast path leaves; and the heap that threads
 * share which have exited. Each test has a size class of its own, which nobody else uses.
 */
#include <pthread.h>

#include "alloc/blocks/lookup.h"
#include "alloc/blocks/remote.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/threads.h"
#include "tests/unit/blocks_unit.h"
#include "vm/pages.h"

static struct bin *bin_for(size_t bytes)
{
    return &thread_heap->bins[size_class_of(bytes)];
}

static size_t index_in(const struct slab *slab, const void *block)
{
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    assert_true(exact);
    return index;
}

static void test_the_threads_own_blocks_are_listed_while_the_slab_is_queued(void **state)
{
    (void)state;
    enum { BYTES = 480 };
    void *remote = blocks_alloc(BYTES), *own = blocks_alloc(BYTES);
    struct slab *slab = slab_at(own);
    push_remote_free(slab, remote, index_in(slab, remote));
    blocks_free(own);
    assert_ptr_equal(bin_for(BYTES)->local_free, own);
    assert_false(unit_is_live(fast_table_unit(own)));
    assert_ptr_equal(blocks_alloc(BYTES), own);
}

static void test_a_block_that_is_freed_for_good_is_not_retired_any_more(void **state)
{
    (void)state;
    enum { BYTES = 576 };
    void *block = blocks_alloc(BYTES), *other = blocks_alloc(BYTES);
    struct slab_word *word = &slab_at(block)->words[index_in(slab_at(block), block) / 64];
    blocks_retire(block, "free");
    blocks_retire(other, "free");
    uint64_t retired = word->retired;
    blocks_free_by_slab(block);
    assert_int_equal(word->retired, retired & ~slab_bit(index_in(slab_at(block), block)));
    assert_ptr_equal(bin_for(BYTES)->local_free, block);
    blocks_unretire(other);
}

static void *freed_guarded;

static void note_guarded(void *block)
{
    freed_guarded = block;
}

static void test_what_lies_in_guarded_memory_goes_to_its_owner(void **state)
{
    (void)state;
    static struct owner guarded = {OWNER_GUARDED};
    char *memory = pages_map(GRANULE_BYTES, GRANULE_BYTES);
    assert_non_null(memory);
    assert_true(granule_map_set(memory, GRANULE_BYTES, &guarded));
    blocks_heap.free_guarded = note_guarded;
    blocks_free(memory + 48);
    assert_ptr_equal(freed_guarded, memory + 48);
    granule_map_set(memory, GRANULE_BYTES, NULL);
    pages_unmap(memory, GRANULE_BYTES);
}

/* Threads without a heap of their own: they have exited, as far as we know. */
enum { LATE_BYTES = 448, LATE_CAPACITY = GRANULE_BYTES / LATE_BYTES };

static void *take_late_slab(void *unused)
{
    (void)unused;
    void *blocks[LATE_CAPACITY];
    blocks_thread_exit();
    for (size_t i = 0; i < LATE_CAPACITY; i++)
        require((blocks[i] = blocks_alloc(LATE_BYTES)) && slab_at(blocks[i]) == slab_at(blocks[0]));
    struct slab *slab = slab_at(blocks[0]);
    require(thread_heap_of(slab) == blocks_heap.common_heap);
    for (size_t i = 0; i < LATE_CAPACITY; i++)
        blocks_free(blocks[i]);
    require(count_free(slab) == 0); /* for whoever next takes the common heap's lock */
    return slab;
}

static void test_threads_that_have_exited_share_a_heap(void **state)
{
    (void)state;
    void *slabs[3];
    for (size_t i = 0; i < 3; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, take_late_slab, NULL), 0);
        pthread_join(thread, &slabs[i]);
        assert_ptr_equal(slabs[i], slabs[0]);
    }
    assert_int_equal(blocks_heap.class_slabs[size_class_of(LATE_BYTES)], 1);
}

static int start(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {.before_growth = grow};
    return blocks_init(25, &collector) && start_thread() ? 0 : -1;
}

static int check_heap(void **state)
{
    (void)state;
    return blocks_is_valid() ? 0 : -1;
}

#define FREE_TEST(test) cmocka_unit_test_teardown(test, check_heap)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FREE_TEST(test_the_threads_own_blocks_are_listed_while_the_slab_is_queued),
        FREE_TEST(test_a_block_that_is_freed_for_good_is_not_retired_any_more),
        FREE_TEST(test_what_lies_in_guarded_memory_goes_to_its_owner),
        FREE_TEST(test_threads_that_have_exited_share_a_heap),
    };
    return cmocka_run_group_tests_name("slow frees", tests, start, NULL);
}
