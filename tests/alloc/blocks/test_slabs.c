/* SPDX-License-Identifier: MIT
 *
 * test_slabs.c: slabs, their lists and states. One thread owns all of them. Each test has size
 * classes of its own, which nobody else uses.
 */
#include <string.h>

#include "alloc/blocks/late_sweep.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/records.h"
#include "alloc/blocks/remote.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/threads.h"
#include "tests/unit/unit.h"
#include "vm/fork_chain.h"
#include "vm/pages.h"

enum { MOST_BLOCKS = 4096 };

static bool has_bit(uint64_t bits, size_t index)
{
    return (bits & slab_bit(index)) != 0;
}

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

/* The slabs' lists. */

static void test_a_list_of_slabs_agrees_with_an_array(void **state)
{
    (void)state;
    enum { SLABS = 12, STEPS = 5000 };
    static _Alignas(64) char records[SLABS][sizeof(struct slab)];
    struct slab *list = NULL, *model[SLABS];
    size_t count = 0;
    uint64_t random = 3;
    for (int step = 0; step < STEPS; step++) {
        struct slab *slab = (struct slab *)(void *)records[random_below(&random, SLABS)];
        size_t at = 0;
        while (at < count && model[at] != slab)
            at++;
        if (at < count) {
            unlink_slab(&list, slab);
            memmove(model + at, model + at + 1, (--count - at) * sizeof *model);
        } else {
            push_slab(&list, slab);
            memmove(model + 1, model, count++ * sizeof *model);
            model[0] = slab;
        }
        const struct slab *previous = NULL, *found = list;
        for (size_t i = 0; i < count; previous = found, found = found->next, i++) {
            assert_ptr_equal(found, model[i]);
            assert_ptr_equal(found->previous, previous);
        }
        assert_null(found);
    }
}

/* New slabs. */

static void look_at_new_slab(const struct slab *slab, unsigned class_index)
{
    size_t bytes = size_class_bytes[class_index], start = slab->start;
    assert_int_equal(slab->capacity, slab_granules(class_index) * GRANULE_BYTES / bytes);
    assert_in_range(slab->capacity, 8, SLAB_MAX_WORDS * SLAB_WORD_BLOCKS);
    assert_in_range(start * bytes % PAGE_BYTES, 0, 1024);
    for (size_t i = 0; i < slab_words(slab) * SLAB_WORD_BLOCKS; i++) {
        const struct slab_word *word = &slab->words[i / SLAB_WORD_BLOCKS];
        bool exists = i < slab->capacity;
        bool held_back = i < start && i / SLAB_WORD_BLOCKS == start / SLAB_WORD_BLOCKS;
        assert_int_equal(has_bit(word->free, i), exists && !held_back);
        assert_int_equal(has_bit(word->remote, i), held_back);
        assert_false(exists && unit_is_live(fast_table_unit(slab_block(slab, i))));
    }
    for (size_t i = 0; i < slab->granules; i++) {
        assert_ptr_equal(slab_at(slab->base + i * GRANULE_BYTES), slab);
        assert_ptr_equal(bin_at(slab->base + i * GRANULE_BYTES), &thread_heap->bins[class_index]);
    }
}

/* Of sixteen neighbours each has another start. One leaves a late live bit. */
static void test_each_block_of_a_new_slab_is_free_or_held_back_before_the_start(void **state)
{
    (void)state;
    enum { NEIGHBOURS = 16 };
    struct slab *slabs[NEIGHBOURS];
    size_t used = blocks_heap.runs.used_granules;
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        blocks_lock();
        for (size_t n = 0; n < NEIGHBOURS; n++)
            slabs[n] = new_slab(i, thread_heap);
        blocks_unlock();
        assert_int_equal(blocks_heap.class_slabs[i], NEIGHBOURS);
        for (size_t n = 0; n < NEIGHBOURS; n++) {
            assert_non_null(slabs[n]);
            look_at_new_slab(slabs[n], i);
            set_live(slab_block(slabs[n], 5));
        }
        blocks_lock();
        for (size_t n = 0; n < NEIGHBOURS; n++)
            release_slab(slabs[n]);
        blocks_unlock();
        assert_int_equal(blocks_heap.class_slabs[i], 0);
        assert_null(slab_at(slabs[0]->base));
        assert_null(bin_at(slabs[0]->base));
    }
    assert_int_equal(blocks_heap.runs.used_granules, used);
}

static void take_slabs_of_all_classes(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        bool exact;
        void *block = blocks_alloc(size_class_bytes[i]);
        const struct slab *slab = slab_at(block);
        size_t start = slab_index(slab, block, &exact);
        require(exact && start == slab->start);
        for (size_t taken = 1; taken < slab->capacity; taken++) {
            block = blocks_alloc(size_class_bytes[i]);
            require(block == slab_block(slab, (start + taken) % slab->capacity));
        }
        require(slab_at(blocks_alloc(size_class_bytes[i])) != slab);
    }
    require(blocks_is_valid());
}

static void test_a_new_slab_is_gone_through_from_its_start_round_to_the_front(void **state)
{
    (void)state;
    assert_child_succeeds(take_slabs_of_all_classes, NULL);
}

static void test_the_bytes_of_a_slab_count_as_taken_once(void **state)
{
    (void)state;
    enum { BYTES = 1792 };
    void *blocks[GRANULE_BYTES / BYTES];
    size_t taken = blocks_taken_bytes();
    take_slab(BYTES, blocks);
    assert_int_equal(blocks_taken_bytes() - taken, GRANULE_BYTES / BYTES * BYTES);
}

/* In a child: nothing is free but one granule, of which there is then none for a record. */
static void make_slab_without_record(void *unused)
{
    (void)unused;
    static struct owner in_use = {OWNER_LARGE};
    struct runs *runs = &blocks_heap.runs;
    unsigned class_index = size_class_of(64);
    bool zero;
    blocks_lock();
    char *last = runs_take(runs, 1, RUN_ANY, &zero);
    granule_map_set(last, GRANULE_BYTES, &in_use);
    runs->area.held = true;
    for (size_t i = 0; i < RECORD_KINDS; i++)
        blocks_heap.records[i].area.held = true;
    while (new_slab_record(1) || new_slab_record(SLAB_MAX_WORDS))
        ;
    require(runs->free_granules == 0);
    runs_give(runs, last, 1, true);
    size_t used = runs->used_granules, slabs = blocks_heap.class_slabs[class_index];
    require(!new_slab(class_index, thread_heap));
    require(runs->used_granules == used && runs->free_granules == 1 && runs_are_valid(runs));
    require(blocks_heap.class_slabs[class_index] == slabs);
    blocks_heap.records[RECORD_FEW_WORDS].area.held = false;
    struct slab *slab = new_slab(class_index, thread_heap);
    require(slab && slab->base == last && blocks_heap.class_slabs[class_index] == slabs + 1);
    blocks_unlock();
}

static void test_a_slab_without_a_record_gives_its_granules_back(void **state)
{
    (void)state;
    assert_child_succeeds(make_slab_without_record, NULL);
}

/* Rebinning. */

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

static enum growth grow(size_t alignment, size_t bytes, unsigned tries, bool exhausted)
{
    (void)alignment, (void)bytes, (void)tries, (void)exhausted;
    return GROW;
}

static bool collect_nothing(void)
{
    return false;
}

static int start(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {
        .may_grow = grow, .may_collect = collect_nothing, .sweep_late = sweep_one};
    return blocks_init(25, &collector) && start_thread() ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_of_slabs_agrees_with_an_array),
        cmocka_unit_test(test_each_block_of_a_new_slab_is_free_or_held_back_before_the_start),
        cmocka_unit_test(test_a_new_slab_is_gone_through_from_its_start_round_to_the_front),
        cmocka_unit_test(test_the_bytes_of_a_slab_count_as_taken_once),
        cmocka_unit_test(test_a_slab_without_a_record_gives_its_granules_back),
        cmocka_unit_test(test_a_full_slab_is_used_again_when_one_block_in_eight_is_free),
        cmocka_unit_test(test_the_only_slab_of_a_bin_stays_when_it_is_empty),
        cmocka_unit_test(test_frees_of_other_threads_count_with_the_threads_own),
        cmocka_unit_test(test_local_free_lists_go_to_their_slabs_when_they_are_flushed),
        cmocka_unit_test(test_slabs_are_counted_anew_after_a_sweep_and_only_then),
        cmocka_unit_test(test_slabs_are_visited_one_by_one_after_a_late_sweep),
        cmocka_unit_test(test_an_empty_slab_stays_while_the_heap_is_frozen),
    };
    return cmocka_run_group_tests_name("slabs", tests, start, NULL);
}
