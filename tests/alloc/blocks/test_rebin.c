/* SPDX-License-Identifier: MIT
 *
 * test_rebin.c: what becomes of a thread's slabs as blocks of them are freed: by the thread, by
 * others and by sweeps. Each test has size classes of its own, which nobody else uses.
 */
#include "alloc/blocks/late_sweep.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/remote.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/threads.h"
#include "tests/unit/blocks_unit.h"
#include "vm/fork_chain.h"

enum { MOST_BLOCKS = 4096 };

static size_t index_in(const struct slab *slab, const void *block)
{
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    assert_true(exact);
    return index;
}

static struct bin *bin_at(const char *address)
{
    return fast_table.bins[fast_table_unit(address) / UNITS_PER_GRANULE];
}

static struct bin *bin_for(size_t bytes)
{
    return &thread_heap->bins[size_class_of(bytes)];
}

static uint32_t slabs_of(size_t bytes)
{
    return blocks_heap.class_slabs[size_class_of(bytes)];
}

/* The bin's local free list takes no block: frees go to the slabs. */
static struct bin *begin_without_list(size_t bytes)
{
    struct bin *bin = bin_for(bytes);
    assert_int_equal(slabs_of(bytes), 0);
    bin->local_free_room = 0;
    return bin;
}

static void end_without_list(struct bin *bin)
{
    bin->local_free_room = local_free_limit(bin->block_bytes);
    assert_true(blocks_is_valid());
}

/* Takes all blocks of a new slab, which stays current. */
static struct slab *take_slab(size_t bytes, void **blocks)
{
    struct slab *slab = slab_at(blocks[0] = blocks_alloc(bytes));
    for (size_t i = 1; i < slab->capacity; i++) {
        blocks[i] = blocks_alloc(bytes);
        assert_ptr_equal(slab_at(blocks[i]), slab);
    }
    assert_int_equal(slab->state, SLAB_CURRENT);
    return slab;
}

/* The same; the next slab is current then, and all of its blocks are free. */
static struct slab *fill_slab(size_t bytes, void **blocks)
{
    struct slab *slab = take_slab(bytes, blocks);
    void *next = blocks_alloc(bytes);
    assert_ptr_not_equal(slab_at(next), slab);
    assert_int_equal(slab->state, SLAB_FULL);
    blocks_free(next);
    return slab;
}

/* Frees. */

static void test_a_full_slab_is_used_again_when_one_block_in_eight_is_free(void **state)
{
    (void)state;
    static const size_t sizes[] = {48, 1024, 20480, 32768};
    static void *blocks[MOST_BLOCKS];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct bin *bin = begin_without_list(sizes[i]);
        struct slab *slab = fill_slab(sizes[i], blocks);
        size_t capacity = slab->capacity;
        for (size_t freed = 1; freed < capacity; freed++) {
            blocks_free(blocks[freed]);
            bool enough = freed >= capacity / 8;
            assert_int_equal(count_free(slab), freed);
            assert_int_equal(slab->state, enough ? SLAB_AVAILABLE : SLAB_FULL);
            assert_ptr_equal(bin->available, enough ? slab : NULL);
            assert_ptr_equal(bin->full, enough ? NULL : slab);
        }
        assert_int_equal(slabs_of(sizes[i]), 2);
        blocks_free(blocks[0]);
        assert_int_equal(slab->state, SLAB_UNUSED); /* the bin has another one */
        assert_int_equal(slabs_of(sizes[i]), 1);
        end_without_list(bin);
    }
}

static void test_the_only_slab_of_a_bin_stays_when_it_is_empty(void **state)
{
    (void)state;
    enum { BYTES = 1536, CAPACITY = GRANULE_BYTES / BYTES };
    void *blocks[CAPACITY];
    struct bin *bin = begin_without_list(BYTES);
    struct slab *slab = take_slab(BYTES, blocks);
    assert_false(use_current(bin));
    assert_null(bin->current);
    for (size_t i = 0; i < CAPACITY; i++)
        blocks_free(blocks[i]);
    assert_int_equal(slab->state, SLAB_AVAILABLE);
    assert_int_equal(count_free(slab), CAPACITY);
    assert_int_equal(slabs_of(BYTES), 1);
    assert_true(use_available(bin));
    assert_null(bin->available);
    assert_ptr_equal(bin->current, slab);
    end_without_list(bin);
}

static void test_frees_of_other_threads_count_with_the_threads_own(void **state)
{
    (void)state;
    enum { BYTES = 640, CAPACITY = GRANULE_BYTES / BYTES, ENOUGH = CAPACITY / 8, REMOTE = 5 };
    void *blocks[CAPACITY];
    struct bin *bin = begin_without_list(BYTES);
    struct slab *slab = fill_slab(BYTES, blocks);
    for (size_t i = 0; i < REMOTE; i++)
        push_remote_free(slab, blocks[i], index_in(slab, blocks[i]));
    assert_null(bin_at(slab->base));
    set_thread_heap(slab, thread_heap);
    assert_null(bin_at(slab->base)); /* as long as it is queued */
    rebin_queued(thread_heap);
    assert_ptr_equal(bin_at(slab->base), bin);
    assert_false(slab->queued);
    assert_int_equal(count_free(slab), REMOTE);
    for (size_t i = REMOTE; i < ENOUGH; i++) {
        assert_int_equal(slab->state, SLAB_FULL);
        blocks_free(blocks[i]);
    }
    assert_int_equal(slab->state, SLAB_AVAILABLE);
    for (size_t i = ENOUGH; i < CAPACITY; i++)
        push_remote_free(slab, blocks[i], index_in(slab, blocks[i]));
    assert_int_equal(slab->state, SLAB_AVAILABLE);
    rebin_queued(thread_heap);
    assert_int_equal(slab->state, SLAB_UNUSED);
    end_without_list(bin);
}

/* [queue is a hint]: its record would be queued in its next use as well. */
static void test_a_queued_slab_is_not_released(void **state)
{
    (void)state;
    enum { BYTES = 896, CAPACITY = GRANULE_BYTES / BYTES, LAST = CAPACITY - 1 };
    void *blocks[CAPACITY];
    struct bin *bin = begin_without_list(BYTES);
    struct slab *slab = fill_slab(BYTES, blocks);
    for (size_t i = 0; i < LAST; i++)
        blocks_free(blocks[i]);
    bin->local_free_room = 1;
    blocks_free(blocks[LAST]);
    offer_to_owner(slab);
    flush_local_free(thread_heap);
    assert_int_equal(count_free(slab), CAPACITY);
    assert_int_equal(slab->state, SLAB_AVAILABLE);
    rebin_queued(thread_heap);
    assert_int_equal(slab->state, SLAB_UNUSED);
    end_without_list(bin);
}

static void test_a_free_that_rebins_a_queued_slab_takes_the_queue(void **state)
{
    (void)state;
    enum { BYTES = 1152, CAPACITY = GRANULE_BYTES / BYTES };
    void *blocks[CAPACITY];
    struct bin *bin = begin_without_list(BYTES);
    struct slab *slab = fill_slab(BYTES, blocks);
    push_remote_free(slab, blocks[0], index_in(slab, blocks[0]));
    for (size_t i = 1; i < CAPACITY; i++)
        blocks_free(blocks[i]);
    assert_int_equal(slab->state, SLAB_UNUSED);
    assert_false(slab->queued);
    assert_null(take_remote_queue(&thread_heap->remote_queue));
    end_without_list(bin);
}

static void test_local_free_lists_go_to_their_slabs_when_they_are_flushed(void **state)
{
    (void)state;
    enum { BYTES = 768, CAPACITY = GRANULE_BYTES / BYTES, ENOUGH = CAPACITY / 8 };
    void *blocks[CAPACITY];
    const struct bin *bin = bin_for(BYTES);
    struct slab *slab = fill_slab(BYTES, blocks);
    for (size_t i = 0; i < ENOUGH; i++)
        blocks_free(blocks[i]);
    assert_int_equal(count_free(slab), 0);
    assert_int_equal(slab->state, SLAB_FULL);
    flush_local_free(thread_heap);
    assert_null(bin->local_free);
    assert_int_equal(bin->local_free_room, local_free_limit(BYTES));
    assert_int_equal(count_free(slab), ENOUGH);
    assert_ptr_equal(bin->available, slab);
}

/* Sweeps. The test says what is dead: the first so many blocks of slabs of a table. */

enum { SWEPT_SLABS = 6 };
static struct {
    struct slab *slab;
    size_t dead;
} swept[SWEPT_SLABS];
static size_t visits;

static void sweep_one(struct slab *slab, enum sweeper sweeper)
{
    (void)sweeper;
    for (size_t i = 0; i < SWEPT_SLABS; i++) {
        visits += swept[i].slab == slab;
        for (size_t dead = 0; swept[i].slab == slab && dead < swept[i].dead; dead++) {
            size_t word = dead / SLAB_WORD_BLOCKS;
            slab_set_free(&slab->words[word], slab_bit(dead));
            blocks_clear_live(slab, word, slab_bit(dead), false);
        }
    }
}

/* Three slabs with nothing but dead blocks; one that has just enough of them to be used again, one
 * that has one too few, and one that has none. */
static struct bin *fill_slabs_to_sweep(size_t bytes)
{
    static void *blocks[MOST_BLOCKS];
    struct bin *bin = begin_without_list(bytes);
    for (size_t i = 0; i < SWEPT_SLABS; i++) {
        struct slab *slab = swept[i].slab = fill_slab(bytes, blocks);
        const size_t dead[] = {slab->capacity,     slab->capacity,         slab->capacity,
                               slab->capacity / 8, slab->capacity / 8 - 1, 0};
        swept[i].dead = dead[i];
    }
    return bin;
}

static void test_slabs_are_counted_anew_after_a_sweep_and_only_then(void **state)
{
    (void)state;
    enum { BYTES = 1280 };
    unsigned class_index = size_class_of(BYTES);
    struct bin *bin = fill_slabs_to_sweep(BYTES);
    for (size_t i = 0; i < SWEPT_SLABS; i++)
        sweep_one(swept[i].slab, SWEEPER_STOPPED);
    rebin_after_sweep(thread_heap, class_index);
    assert_null(bin->available);
    blocks_lock();
    blocks_swept();
    blocks_unlock();
    rebin_after_sweep(thread_heap, class_index);
    for (size_t i = 0; i < SWEPT_SLABS; i++)
        assert_int_equal(swept[i].slab->state, i < 3    ? SLAB_UNUSED
                                               : i == 3 ? SLAB_AVAILABLE
                                                        : SLAB_FULL);
    assert_int_equal(swept[4].slab->frees_until_rebin, 1);
    assert_ptr_equal(bin->available, swept[3].slab);
    assert_int_equal(slabs_of(BYTES), SWEPT_SLABS - 3 + 1);
    end_without_list(bin);
}

/* The list of full slabs is 5, 4, ... 0. */
static void test_slabs_are_visited_one_by_one_after_a_late_sweep(void **state)
{
    (void)state;
    enum { BYTES = 1408, CAPACITY = GRANULE_BYTES / BYTES };
    void *blocks[CAPACITY];
    unsigned class_index = size_class_of(BYTES);
    struct bin *bin = fill_slabs_to_sweep(BYTES);
    visits = 0;
    blocks_lock();
    blocks_begin_late_sweep();
    blocks_swept_late();
    blocks_unlock();
    rebin_after_sweep(thread_heap, class_index);
    assert_int_equal(visits, 0);
    assert_false(use_available(bin));
    assert_true(find_available_after_sweep(thread_heap, class_index));
    assert_int_equal(visits, 3);
    assert_ptr_equal(bin->available, swept[3].slab);
    assert_true(is_unswept(swept[2].slab));
    /* One that leaves the list, though the next to be visited, takes nothing with it. */
    for (size_t i = 0; i < CAPACITY / 8; i++)
        blocks_free(slab_block(swept[2].slab, i));
    assert_ptr_equal(bin->available, swept[2].slab);
    thread_heap->visited_class = class_index;
    visit_some_after_sweep(thread_heap, 1);
    assert_int_equal(visits, 4);
    assert_false(is_unswept(swept[1].slab));
    assert_true(is_unswept(swept[0].slab));
    visit_some_after_sweep(thread_heap, 1000);
    assert_int_equal(visits, 5);
    take_slab(BYTES, blocks); /* the current one */
    assert_true(is_unswept(swept[2].slab));
    assert_ptr_equal(slab_at(blocks_alloc(BYTES)), swept[2].slab);
    assert_false(is_unswept(swept[2].slab));
    end_without_list(bin);
}

static void test_an_empty_slab_stays_while_the_heap_is_frozen(void **state)
{
    (void)state;
    enum { BYTES = 3072, CAPACITY = GRANULE_BYTES / BYTES };
    void *blocks[CAPACITY];
    struct bin *bin = begin_without_list(BYTES);
    struct slab *slab = fill_slab(BYTES, blocks);
    fork_chain_prepare();
    for (size_t i = 0; i < CAPACITY; i++)
        blocks_free(blocks[i]);
    fork_chain_parent();
    assert_ptr_equal(bin->available, slab);
    assert_int_equal(count_free(slab), CAPACITY);
    blocks_lock();
    blocks_swept();
    blocks_unlock();
    rebin_all_after_sweep(thread_heap);
    assert_int_equal(slab->state, SLAB_UNUSED);
    end_without_list(bin);
}

static bool collect_nothing(void)
{
    return false;
}

static int start(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {
        .before_growth = grow, .collect_if_due = collect_nothing, .sweep_late = sweep_one};
    return blocks_init(25, &collector) && start_thread() ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_slab_is_used_again_when_one_block_in_eight_is_free),
        cmocka_unit_test(test_the_only_slab_of_a_bin_stays_when_it_is_empty),
        cmocka_unit_test(test_frees_of_other_threads_count_with_the_threads_own),
        cmocka_unit_test(test_a_queued_slab_is_not_released),
        cmocka_unit_test(test_a_free_that_rebins_a_queued_slab_takes_the_queue),
        cmocka_unit_test(test_local_free_lists_go_to_their_slabs_when_they_are_flushed),
        cmocka_unit_test(test_slabs_are_counted_anew_after_a_sweep_and_only_then),
        cmocka_unit_test(test_slabs_are_visited_one_by_one_after_a_late_sweep),
        cmocka_unit_test(test_an_empty_slab_stays_while_the_heap_is_frozen),
    };
    return cmocka_run_group_tests_name("rebinning", tests, start, NULL);
}
