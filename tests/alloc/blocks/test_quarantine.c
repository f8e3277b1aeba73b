/* SPDX-License-Identifier: MIT
 *
 * test_quarantine.c: blocks that are released by their age, by their bits: [retired until free]
 * (alloc/blocks/quarantine.h).
 */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "alloc/blocks/lookup.h"
#include "alloc/blocks/quarantine.h"
#include "alloc/blocks/remote.h"
#include "alloc/blocks/slabs.h"
#include "tests/unit/blocks_unit.h"
#include "vm/pages.h"

enum { BYTES = 112, LARGE_BYTES = 300000, FILLER_BYTES = 1 << 20 };

static const struct blocks_collector collector = {.before_growth = grow, .rows = SLAB_OLD_ROWS};

/* Enough for the next ageing, which every block that is retired now takes part in. */
static void retire_enough(void)
{
    for (int i = 0; i < 2; i++) {
        void *filler = blocks_alloc(FILLER_BYTES);
        assert_non_null(filler);
        assert_true(quarantine_block(filler, "free"));
    }
}

static void age_once(void)
{
    retire_enough();
    quarantine_age();
}

static size_t index_in(const struct slab *slab, const void *block)
{
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    assert_true(exact);
    return index;
}

static bool is_set(uint64_t bits, const void *block)
{
    return (bits & slab_bit(index_in(slab_at(block), block))) != 0;
}

static struct slab_word *word_of(const void *block)
{
    struct slab *slab = slab_at(block);
    return &slab->words[index_in(slab, block) / SLAB_WORD_BLOCKS];
}

/* A block that is released, and that the owning thread has not taken back. */
static void *aged_block(void)
{
    void *block = blocks_alloc(BYTES);
    assert_true(quarantine_block(block, "free"));
    age_once();
    assert_false(is_set(word_of(block)->remote, block));
    age_once();
    assert_true(is_set(word_of(block)->remote, block));
    return block;
}

static void test_a_block_is_retired_until_it_is_free(void **state)
{
    (void)state;
    void *block = aged_block();
    struct slab_word *word = word_of(block);
    assert_true(is_set(word->retired, block));
    take_remote_frees(slab_at(block));
    assert_true(is_set(word->free, block));
    assert_false(is_set(word->retired, block));
    assert_false(is_set(word->remote, block));
    rebin_queued(thread_heap);
    assert_true(blocks_is_valid());
}

static void test_a_second_free_is_told_until_the_block_is_free(void **state)
{
    (void)state;
    bool twice;
    void *block = aged_block();
    assert_false(quarantine_block(block, "free"));
    assert_null(quarantine_resize(block, BYTES, &twice));
    assert_true(twice);
    rebin_queued(thread_heap);
}

static void test_a_released_block_does_not_age_again(void **state)
{
    (void)state;
    void *block = aged_block();
    uint64_t retired = quarantine_aged_blocks();
    for (int i = 0; i < 3; i++)
        age_once();
    assert_true(quarantine_aged_blocks() > retired); /* the fillers */
    assert_true(is_set(word_of(block)->remote, block));
    rebin_queued(thread_heap);
    take_remote_frees(slab_at(block));
    assert_false(is_set(word_of(block)->retired, block));
}

static size_t address_space_bytes(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * PAGE_BYTES;
}

/* The kernel maps nothing. */
static void age_without_memory(void)
{
    struct rlimit limit, tight;
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    tight = (struct rlimit){address_space_bytes(), limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    quarantine_age();
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

/* Of what is not mapped the guard cannot be taken, and without memory nothing else takes its place.
 * What the kernel has refused once is tried again. */
static void test_a_large_block_that_cannot_be_opened_is_released_later(void **state)
{
    (void)state;
    char *block = blocks_alloc(LARGE_BYTES);
    struct slab *slab = slab_at(block);
    size_t bytes = slab->block_bytes;
    assert_true(quarantine_block(block, "free"));
    assert_true(slab->is_closed);
    age_once();
    retire_enough();
    assert_int_equal(munmap(block, bytes), 0);
    age_without_memory();
    assert_true(slab_at(block) == slab && slab->base == block && slab->is_closed);
    assert_true(is_set(slab->words[0].free, block));
    assert_false(is_set(slab->words[0].retired, block));
    age_once();
    assert_true(slab_at(block) != slab || slab->base != block || !slab->is_closed);
    assert_true(blocks_is_valid());
}

static int start(void **state)
{
    (void)state;
    quarantine_on = true;
    return blocks_init(25, &collector) && blocks_alloc(1) ? 0 : -1;
}

static size_t look_at(const void *block, struct quarantine_written written[MOST_WRITTEN])
{
    const struct slab *slab = slab_at(block);
    size_t index = index_in(slab, block);
    blocks_lock();
    quarantine_look(slab, index / SLAB_WORD_BLOCKS, slab_bit(index));
    blocks_unlock();
    return quarantine_take_written(written);
}

static void test_a_write_to_any_byte_of_a_retired_block_is_found(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 16, 48, 64, 80, 112, 200, 1000, 5000};
    struct quarantine_written written[MOST_WRITTEN];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = blocks_alloc(sizes[i]);
        size_t bytes = slab_at(block)->block_bytes;
        assert_true(quarantine_block(block, "free"));
        assert_int_equal(look_at(block, written), 0);
        for (size_t offset = 0; offset < bytes; offset++) {
            block[offset] ^= 1;
            assert_int_equal(look_at(block, written), 1);
            assert_ptr_equal(written[0].block, block);
            assert_int_equal(written[0].offset, offset);
            block[offset] ^= 1;
        }
    }
}

/* As a sweep releases it: free, and not looked at. */
static void release(void *block)
{
    assert_true(quarantine_block(block, "free"));
    blocks_lock();
    struct slab *slab = slab_at(block);
    size_t index = index_in(slab, block);
    blocks_clear_live(slab, index / SLAB_WORD_BLOCKS, slab_bit(index), false);
    slab_set_free(word_of(block), slab_bit(index));
    blocks_unlock();
}

static void look_at_current(void)
{
    blocks_lock();
    quarantine_look_at_current();
    blocks_unlock();
}

static size_t found;

static void count_found(void)
{
    struct quarantine_written written[MOST_WRITTEN];
    found += quarantine_take_written(written);
}

static void test_a_released_block_is_looked_at_before_it_is_handed_out(void **state)
{
    (void)state;
    enum { MOST = 100000, OFFSET = 70 };
    char *block = blocks_alloc(BYTES);
    release(block);
    block[OFFSET] ^= 1;
    thread_heap->bins[slab_at(block)->class_index].free_word = NULL; /* not the word at hand */
    found = 0;
    quarantine_found_written = count_found;
    for (int i = 0; i < MOST; i++)
        if (blocks_alloc(BYTES) == block)
            break;
        else
            assert_true(is_set(word_of(block)->free, block));
    assert_false(is_set(word_of(block)->free, block));
    assert_false(is_set(word_of(block)->retired, block));
    assert_int_equal(found, 1);
    quarantine_found_written = NULL;
}

static void test_the_word_at_hand_is_looked_at_by_the_collection(void **state)
{
    (void)state;
    struct quarantine_written written[MOST_WRITTEN];
    char *block = blocks_alloc(BYTES);
    release(block);
    struct bin *bin = &thread_heap->bins[slab_at(block)->class_index];
    bin->current = slab_at(block);
    point_at_word(bin, index_in(bin->current, block) / SLAB_WORD_BLOCKS);
    block[5] ^= 1;
    look_at_current();
    assert_int_equal(quarantine_take_written(written), 1);
    assert_ptr_equal(written[0].block, block);
    assert_int_equal(written[0].offset, 5);
    assert_false(is_set(word_of(block)->retired, block));
}

static void test_released_blocks_are_looked_at_where_they_are(void **state)
{
    (void)state;
    struct quarantine_written written[MOST_WRITTEN];
    char *block = blocks_alloc(5000), *whole = blocks_alloc(5000);
    release(block);
    release(whole);
    block[4999] ^= 1;
    assert_true(quarantine_look_at_released());
    assert_int_equal(quarantine_take_written(written), 1);
    assert_ptr_equal(written[0].block, block);
    assert_true(is_set(word_of(block)->retired, block) && is_set(word_of(whole)->retired, whole));
    blocks_lock();
    quarantine_look_before_drop(slab_at(block));
    blocks_unlock();
    assert_int_equal(quarantine_take_written(written), 1);
    assert_false(is_set(word_of(block)->retired, block));
}

/* A collection has released it. Then there are no collections any more. */
static void test_a_released_block_that_nobody_has_looked_at_does_not_age(void **state)
{
    (void)state;
    char *block = blocks_alloc(BYTES);
    release(block);
    for (int i = 0; i < 3; i++)
        age_once();
    assert_false(is_set(word_of(block)->remote, block));
    assert_true(is_set(word_of(block)->free, block));
    look_at_current();
}

static void test_a_second_free_of_a_released_block_is_told(void **state)
{
    (void)state;
    void *block = blocks_alloc(BYTES);
    release(block);
    assert_false(quarantine_block(block, "free"));
    look_at_current();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_is_retired_until_it_is_free),
        cmocka_unit_test(test_a_second_free_is_told_until_the_block_is_free),
        cmocka_unit_test(test_a_released_block_does_not_age_again),
        cmocka_unit_test(test_a_large_block_that_cannot_be_opened_is_released_later),
        cmocka_unit_test(test_a_write_to_any_byte_of_a_retired_block_is_found),
        cmocka_unit_test(test_a_released_block_is_looked_at_before_it_is_handed_out),
        cmocka_unit_test(test_the_word_at_hand_is_looked_at_by_the_collection),
        cmocka_unit_test(test_released_blocks_are_looked_at_where_they_are),
        cmocka_unit_test(test_a_released_block_that_nobody_has_looked_at_does_not_age),
        cmocka_unit_test(test_a_second_free_of_a_released_block_is_told),
    };
    return cmocka_run_group_tests_name("quarantine", tests, start, NULL);
}
