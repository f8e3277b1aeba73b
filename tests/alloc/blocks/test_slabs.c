/* SPDX-License-Identifier: MIT
 *
 * test_slabs.c: new slabs: their bits, where they start, and what is left when one cannot be made;
 * and the slabs' lists. What becomes of a slab later: test_rebin.c.
 */
#include <string.h>

#include "alloc/blocks/lookup.h"
#include "alloc/blocks/records.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/threads.h"
#include "tests/unit/blocks_unit.h"
#include "vm/pages.h"

static bool has_bit(uint64_t bits, size_t index)
{
    return (bits & slab_bit(index)) != 0;
}

static struct bin *bin_at(const char *address)
{
    return fast_table.bins[fast_table_unit(address) / UNITS_PER_GRANULE];
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

/* Late live bits, as a thread leaves them that was stopped. */
static void set_all_live(const struct slab *slab)
{
    for (size_t i = 0; i < slab->granules * UNITS_PER_GRANULE; i++)
        set_live(slab->base + i * BLOCK_ALIGNMENT);
}

/* Of sixteen neighbours each has another start. */
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
            set_all_live(slabs[n]);
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

/* Whole slabs, most of which start behind their first word of bits. */
static void test_the_bytes_of_a_slab_count_as_taken_once(void **state)
{
    (void)state;
    enum { BYTES = 112, SLABS = 16, BLOCKS = SLABS * (GRANULE_BYTES / BYTES) };
    size_t taken = blocks_taken_bytes();
    for (size_t i = 0; i < BLOCKS; i++)
        assert_non_null(blocks_alloc(BYTES));
    assert_int_equal(blocks_taken_bytes() - taken, BLOCKS * BYTES);
}

/* In a child: nothing is free but one granule, of which there is then none for a record. */
static void make_slab_without_record(void *unused)
{
    (void)unused;
    static struct owner in_use = {OWNER_LARGE};
    struct runs *runs = &blocks_heap.runs;
    unsigned class_index = size_class_of(64);
    struct stretch contents;
    blocks_lock();
    char *last = runs_take(runs, 1, RUN_ANY, &contents);
    granule_map_set(last, GRANULE_BYTES, &in_use);
    use_up_all_memory();
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

static bool collect_nothing(void)
{
    return false;
}

static int start(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {.before_growth = grow,
                                                      .collect_if_due = collect_nothing};
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
    };
    return cmocka_run_group_tests_name("slabs", tests, start, NULL);
}
