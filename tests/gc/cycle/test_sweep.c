/* SPDX-License-Identifier: MIT
 *
 * test_sweep.c: what a sweep frees, by the bits alone.
 */
#include "tests/unit/blocks_unit.h"

#include <pthread.h>

#include "alloc/blocks/blocks.h"
#include "alloc/blocks/fast_table.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/slab.h"
#include "vm/granule_map.h"

/* What another thread does while a word is swept: once, when the sweep counts just these bits. */
static void (*meanwhile)(void);
static uint64_t meanwhile_at;

static uint32_t count_bits_and_wait(uint64_t bits)
{
    if (meanwhile && bits == meanwhile_at) {
        meanwhile();
        meanwhile = NULL;
    }
    return count_bits(bits);
}

/* Included, not linked, for that. */
#define count_bits count_bits_and_wait
#include "gc/cycle/sweep.c"
#undef count_bits

enum { BLOCKS = 300, BLOCK_BYTES = 112 };

static void *blocks[BLOCKS];

static void suspect_used(const void *block, size_t bytes, const char *function);

static struct blocks_collector collector = {.before_growth = grow, .suspect_used = suspect_used};

static int make_heap(void **state)
{
    (void)state;
    return blocks_init(25, &collector) ? 0 : -1;
}

static int take_blocks(void **state)
{
    (void)state;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = blocks_alloc(BLOCK_BYTES);
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    for (int i = 0; i < BLOCKS; i++)
        if (blocks_usable_size(blocks[i]) > 0)
            blocks_free(blocks[i]);
    blocks_flush_thread();
    assert_true(blocks_is_valid());
    return 0;
}

/* The word of a block, and its bit in it. */
static struct slab_word *word_of(const void *block, uint64_t *bit)
{
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    assert_true(exact);
    *bit = slab_bit(index);
    return &slab->words[index / SLAB_WORD_BLOCKS];
}

static void mark_slab(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].mark = UINT64_MAX;
}

static void unmark(const void *block)
{
    uint64_t bit;
    struct slab_word *word = word_of(block, &bit);
    word->mark &= ~bit;
}

static bool is_alive(const void *block)
{
    return blocks_usable_size(block) > 0;
}

/* As a collection does with the world stopped. dead: every so many-th block is not marked. */
static struct sweep_result sweep_every_as(enum sweep_leaks leaks, int dead)
{
    struct sweep_result result;
    blocks_lock();
    blocks_set_local_free_bits(true);
    blocks_each_slab(mark_slab, NULL);
    for (int i = 0; i < BLOCKS; i += dead)
        unmark(blocks[i]);
    sweep(leaks, &result);
    blocks_set_local_free_bits(false);
    blocks_swept();
    blocks_unlock();
    return result;
}

static struct sweep_result sweep_every(int dead)
{
    return sweep_every_as(SWEEP_RECLAIM, dead);
}

static void test_what_is_not_marked_is_freed(void **state)
{
    (void)state;
    struct sweep_result result = sweep_every(3);
    assert_int_equal(result.blocks, BLOCKS / 3);
    assert_int_equal(result.bytes, BLOCKS / 3 * BLOCK_BYTES);
    assert_int_equal(result.live_bytes, (BLOCKS - BLOCKS / 3) * BLOCK_BYTES);
    assert_int_equal(result.empty_bytes, 0);
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(is_alive(blocks[i]), i % 3 != 0);
}

static void test_what_is_freed_is_handed_out_again(void **state)
{
    (void)state;
    size_t used = blocks_used_bytes();
    assert_in_range(sweep_every(1).empty_bytes, GRANULE_BYTES, used);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = blocks_alloc(BLOCK_BYTES);
    assert_int_equal(blocks_used_bytes(), used);
}

static void test_a_slab_without_a_live_block_counts_as_empty(void **state)
{
    (void)state;
    void *large = blocks_alloc((size_t)1 << 20);
    struct slab *slab = blocks_slab_of(large);
    size_t bytes = slab->granules * GRANULE_BYTES, used = blocks_used_bytes();
    assert_int_equal(sweep_every(2).empty_bytes, 0);
    blocks_lock();
    blocks_set_local_free_bits(true);
    blocks_each_slab(mark_slab, NULL);
    unmark(large);
    struct sweep_result result;
    sweep(SWEEP_RECLAIM, &result);
    blocks_set_local_free_bits(false);
    blocks_swept();
    blocks_unlock();
    assert_int_equal(result.empty_bytes, bytes);
    assert_int_equal(result.blocks, 1);
    assert_int_equal(blocks_used_bytes(), used - bytes);
}

static void test_what_was_free_is_not_freed_again(void **state)
{
    (void)state;
    for (int i = 0; i < BLOCKS; i += 3)
        blocks_free(blocks[i]); /* into the thread's list, and some into the slab */
    assert_int_equal(sweep_every(3).blocks, 0);
    for (int i = 0; i < BLOCKS; i += 3)
        blocks[i] = blocks_alloc(BLOCK_BYTES);
}

static void *free_in_thread(void *block)
{
    blocks_free(block);
    blocks_thread_exit();
    return NULL;
}

static void test_what_another_thread_has_freed_is_not_freed_again(void **state)
{
    (void)state;
    pthread_t thread;
    pthread_create(&thread, NULL, free_in_thread, blocks[0]);
    pthread_join(thread, NULL);
    assert_int_equal(sweep_every(BLOCKS).blocks, 0);
}

static void test_a_pinned_block_stays_without_a_mark(void **state)
{
    (void)state;
    uint64_t bit;
    struct slab_word *word = word_of(blocks[0], &bit);
    struct slab *slab = blocks_slab_of(blocks[0]);
    slab->has_pins = true;
    uint64_t *pinned = slab_pinned(slab, (size_t)(word - slab->words));
    *pinned |= bit;
    assert_int_equal(sweep_every(2).blocks, BLOCKS / 2 - 1);
    assert_true(is_alive(blocks[0]));
    assert_false(is_alive(blocks[2]));
    *pinned &= ~bit;
}

/* The next block that lies there has not been freed by the program. */
enum { RETIRERS = 2, RETIRES = 300000 };
static _Atomic unsigned lost_bits;

/* One block again and again. The pauses are for the other thread's change of the word to end. */
static void *retire_again_and_again(void *block)
{
    uint64_t bit;
    struct slab_word *word = word_of(block, &bit);
    for (int i = 0; i < RETIRES; i++) {
        blocks_retire(block, "free");
        for (int pause = 0; pause < 3; pause++)
            __builtin_ia32_pause();
        if (!(__atomic_fetch_and(&word->retired, ~bit, __ATOMIC_SEQ_CST) & bit))
            lost_bits++;
    }
    return NULL;
}

static void test_threads_retire_neighbours_at_once(void **state)
{
    (void)state;
    pthread_t threads[RETIRERS];
    lost_bits = 0;
    for (int i = 0; i < RETIRERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, retire_again_and_again, blocks[i]), 0);
    for (int i = 0; i < RETIRERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(lost_bits, 0);
}

static void test_a_dead_block_is_no_longer_retired(void **state)
{
    (void)state;
    uint64_t bits[2];
    struct slab_word *words[2] = {word_of(blocks[0], &bits[0]), word_of(blocks[1], &bits[1])};
    blocks_retire(blocks[0], "free");
    blocks_retire(blocks[1], "free");
    sweep_every(2);
    assert_int_equal(words[0]->retired & bits[0], 0);
    assert_int_equal(words[1]->retired & bits[1], bits[1]);
    sweep_every(1);
    assert_int_equal(words[1]->retired & bits[1], 0);
}

/* Suspects. */

static struct {
    const void *block;
    size_t bytes;
    const char *function;
    int times;
} told;

static void suspect_used(const void *block, size_t bytes, const char *function)
{
    told.block = block;
    told.bytes = bytes;
    told.function = function;
    told.times++;
}

static void test_a_dead_block_is_suspected_first_and_freed_when_it_is_dead_again(void **state)
{
    (void)state;
    struct sweep_result first = sweep_every_as(SWEEP_SUSPECT, 3);
    assert_int_equal(first.blocks, 0);
    assert_int_equal(first.suspected_blocks, BLOCKS / 3);
    assert_int_equal(first.suspects, BLOCKS / 3);
    assert_int_equal(first.live_bytes, BLOCKS * BLOCK_BYTES);
    assert_true(blocks_is_valid());
    struct sweep_result second = sweep_every_as(SWEEP_SUSPECT, 6);
    assert_int_equal(second.blocks, BLOCKS / 6);
    assert_int_equal(second.suspected_blocks, 0);
    assert_int_equal(second.suspects, BLOCKS / 6);
    assert_int_equal(second.pointed_to, BLOCKS / 6);
    assert_false(is_alive(blocks[0]));
    assert_true(is_alive(blocks[1]));
    assert_true(blocks_is_valid());
}

static void test_what_the_program_has_freed_is_never_suspected(void **state)
{
    (void)state;
    blocks_retire(blocks[0], "free");
    struct sweep_result result = sweep_every_as(SWEEP_KEEP, 2);
    assert_int_equal(result.blocks, 1);
    assert_int_equal(result.retired_blocks, 1);
    assert_int_equal(result.suspects, 0);
}

static void test_watching_keeps_suspects(void **state)
{
    (void)state;
    sweep_every_as(SWEEP_WATCH, 2);
    struct sweep_result again = sweep_every_as(SWEEP_WATCH, 2);
    assert_int_equal(again.blocks, 0);
    assert_int_equal(again.suspected_blocks, 0);
    assert_int_equal(again.suspects, BLOCKS / 2);
    sweep_every_as(SWEEP_KEEP, 2);
    assert_int_equal(again.blocks, 0);
}

static void use_and_expect(const char *function)
{
    assert_int_equal(told.times, 1);
    assert_string_equal(told.function, function);
    assert_ptr_equal(told.block, blocks[0]);
    assert_int_equal(told.bytes, BLOCK_BYTES);
    told.times = 0;
}

static void test_a_suspect_that_is_used_is_told_of(void **state)
{
    (void)state;
    sweep_every_as(SWEEP_WATCH, BLOCKS);
    told.times = 0;
    assert_int_equal(blocks_usable_size(blocks[0]), BLOCK_BYTES);
    assert_int_equal(told.times, 0); /* the shim asks, too */
    assert_ptr_equal(blocks_resize(blocks[0], BLOCK_BYTES - 1), blocks[0]);
    use_and_expect("realloc");
    blocks_free(blocks[0]);
    use_and_expect("free");
    assert_ptr_equal(blocks_alloc(BLOCK_BYTES), blocks[0]);
    assert_int_equal(blocks_usable_size(blocks[0]), BLOCK_BYTES);
    assert_int_equal(told.times, 0); /* it is another block now */
}

static void test_a_suspect_may_be_freed_by_another_thread(void **state)
{
    (void)state;
    sweep_every_as(SWEEP_WATCH, BLOCKS);
    told.times = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, free_in_thread, blocks[0]);
    pthread_join(thread, NULL);
    use_and_expect("free");
    assert_int_equal(sweep_every_as(SWEEP_WATCH, BLOCKS).suspects, 0);
}

/* Late live bits: from the first of these tests on, since what is late stays so. */

static int take_blocks_of_late(void **state)
{
    collector.late_live_bits = true;
    return take_blocks(state);
}

/* A late sweep, by the owning thread or another: who sweeps is as the test chooses. */
static enum sweeper chosen;

static void sweep_as_chosen(struct slab *slab, enum sweeper sweeper)
{
    (void)sweeper;
    sweep_late(slab, chosen);
}

static bool live_bit_is_set(const void *block)
{
    return unit_is_live(fast_table_unit(block));
}

static bool is_suspect(const void *block)
{
    uint64_t bit;
    struct slab *slab = blocks_slab_of(block);
    size_t word = (size_t)(word_of(block, &bit) - slab->words);
    return (*slab_suspects(slab, word) & bit) != 0;
}

/* One block is retired, so it is freed; one that is not becomes a suspect. */
static void sweep_two_late(enum sweeper by)
{
    collector.sweep_late = sweep_as_chosen;
    chosen = by;
    blocks_retire(blocks[0], "free");
    blocks_lock();
    blocks_each_slab(mark_slab, NULL);
    unmark(blocks[0]);
    unmark(blocks[1]);
    sweep_begin_late(SWEEP_SUSPECT);
    blocks_sweep_rest();
    blocks_unlock();
    assert_true(is_suspect(blocks[1]));
    assert_false(is_suspect(blocks[0]));
}

static void test_a_late_sweep_by_the_owner_frees_and_suspects(void **state)
{
    (void)state;
    uint64_t bit;
    const struct slab_word *word = word_of(blocks[0], &bit);
    sweep_two_late(SWEEPER_OWNER);
    assert_true(word->free & bit);
    assert_false(word->remote & bit);
    assert_false(word->retired & bit);
    assert_false(live_bit_is_set(blocks[1]));
    blocks_free_by_slab(blocks[1]);
    assert_false(is_suspect(blocks[1]));
}

/* The live bits are the owning thread's. */
static void test_a_late_sweep_by_another_thread_frees_remotely(void **state)
{
    (void)state;
    uint64_t bit;
    const struct slab_word *word = word_of(blocks[0], &bit);
    sweep_two_late(SWEEPER_OTHER);
    assert_false(word->free & bit);
    assert_true(word->remote & bit);
    assert_true(live_bit_is_set(blocks[1]));
    blocks_free_by_slab(blocks[1]);
    assert_false(is_suspect(blocks[1]));
}

static void clear_suspect(void)
{
    uint64_t bit;
    struct slab *slab = blocks_slab_of(blocks[1]);
    size_t word = (size_t)(word_of(blocks[1], &bit) - slab->words);
    assert_true(is_suspect(blocks[1]));
    clear_suspects(slab, word, bit);
}

/* Its owner frees it, and may hand it out again. */
static void test_a_suspect_that_is_freed_during_a_late_sweep_is_none_after_it(void **state)
{
    (void)state;
    sweep_two_late(SWEEPER_OTHER);
    blocks_lock();
    blocks_each_slab(mark_slab, NULL);
    word_of(blocks[1], &meanwhile_at); /* it is the only suspect */
    meanwhile = clear_suspect;
    sweep_begin_late(SWEEP_SUSPECT);
    blocks_sweep_rest();
    blocks_unlock();
    assert_null(meanwhile);
    assert_false(is_suspect(blocks[1]));
}

static uint64_t free_blocks_now(void)
{
    struct allocator_statistics statistics;
    blocks_statistics(&statistics);
    return statistics.heap.free_blocks + statistics.heap.cached_blocks;
}

/* Neither a look at the block nor a count takes a live bit that is late for a live block. */
static void test_a_late_live_bit_is_of_a_block_that_is_free(void **state)
{
    (void)state;
    blocks_flush_thread();
    uint64_t free = free_blocks_now();
    sweep_every(3);
    assert_int_equal(free_blocks_now(), free + BLOCKS / 3);
    assert_true(blocks_is_valid());
    for (int i = 0; i < BLOCKS; i++) {
        assert_true(unit_is_live(fast_table_unit(blocks[i])));
        assert_int_equal(is_alive(blocks[i]), i % 3 != 0);
    }
    for (int i = 0; i < BLOCKS; i += 3)
        blocks[i] = blocks_alloc(BLOCK_BYTES);
    for (int i = 0; i < BLOCKS; i++)
        assert_true(is_alive(blocks[i]));
}

/* The next use of a suspect is told. */
static void test_of_a_suspect_the_live_bit_is_never_late(void **state)
{
    (void)state;
    sweep_every_as(SWEEP_SUSPECT, BLOCKS);
    assert_false(unit_is_live(fast_table_unit(blocks[0])));
    assert_true(is_alive(blocks[0]));
}

static bool is_retired(const void *block)
{
    uint64_t bit;
    return (word_of(block, &bit)->retired & bit) != 0;
}

static void *free_by_slab_in_thread(void *block)
{
    blocks_free_by_slab(block);
    return NULL;
}

static void free_with_late_bit(void *unused)
{
    (void)unused;
    blocks_free_by_slab(blocks[0]);
}

static void test_a_free_by_the_slab_is_not_misled_by_a_late_live_bit(void **state)
{
    (void)state;
    blocks_free(blocks[0]);
    blocks[0] = blocks_alloc(2 * BLOCK_BYTES); /* of a slab whose frees take the fast path */
    sweep_every(BLOCKS);
    assert_aborts(free_with_late_bit, NULL, "): not a live block (");
    blocks_free_by_slab(blocks[1]);
    assert_false(is_alive(blocks[1]));
}

/* Of each way: its own thread's, another's, and realloc's. */
static void test_a_block_that_is_freed_for_good_is_no_longer_retired(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        blocks_retire(blocks[i], "free");
    assert_true(is_retired(blocks[0]) && is_retired(blocks[1]) && is_retired(blocks[2]));
    pthread_t thread;
    blocks_free_by_slab(blocks[0]);
    pthread_create(&thread, NULL, free_by_slab_in_thread, blocks[1]);
    pthread_join(thread, NULL);
    void *resized = blocks_resize(blocks[2], 10 * BLOCK_BYTES);
    blocks_flush_thread();
    sweep_every(BLOCKS + 1); /* what the other thread has freed is taken */
    for (int i = 0; i < 3; i++) {
        assert_false(is_alive(blocks[i]));
        assert_false(is_retired(blocks[i]));
        blocks[i] = resized;
    }
    assert_true(is_alive(resized));
}

/* Otherwise what the program puts into it would not be followed. */
static void test_a_block_that_is_resized_in_place_is_no_longer_retired(void **state)
{
    (void)state;
    blocks_retire(blocks[0], "free");
    assert_ptr_equal(blocks_resize(blocks[0], BLOCK_BYTES - 1), blocks[0]);
    assert_false(is_retired(blocks[0]));
    enum { LARGE = 100000 };
    char *large = blocks_alloc(LARGE);
    blocks_retire(large, "free");
    large = blocks_resize(large, 2 * LARGE);
    assert_false(is_retired(large));
    blocks_free(large);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, take_blocks, free_all)
#define LATE(name) cmocka_unit_test_setup_teardown(name, take_blocks_of_late, free_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_not_marked_is_freed),
        TEST(test_what_is_freed_is_handed_out_again),
        TEST(test_a_slab_without_a_live_block_counts_as_empty),
        TEST(test_what_was_free_is_not_freed_again),
        TEST(test_what_another_thread_has_freed_is_not_freed_again),
        TEST(test_a_pinned_block_stays_without_a_mark),
        TEST(test_a_dead_block_is_no_longer_retired),
        TEST(test_threads_retire_neighbours_at_once),
        TEST(test_a_dead_block_is_suspected_first_and_freed_when_it_is_dead_again),
        TEST(test_what_the_program_has_freed_is_never_suspected),
        TEST(test_watching_keeps_suspects),
        TEST(test_a_suspect_that_is_used_is_told_of),
        TEST(test_a_suspect_may_be_freed_by_another_thread),
        LATE(test_a_late_live_bit_is_of_a_block_that_is_free),
        LATE(test_of_a_suspect_the_live_bit_is_never_late),
        LATE(test_a_free_by_the_slab_is_not_misled_by_a_late_live_bit),
        LATE(test_a_block_that_is_freed_for_good_is_no_longer_retired),
        LATE(test_a_block_that_is_resized_in_place_is_no_longer_retired),
        LATE(test_a_late_sweep_by_the_owner_frees_and_suspects),
        LATE(test_a_late_sweep_by_another_thread_frees_remotely),
        LATE(test_a_suspect_that_is_freed_during_a_late_sweep_is_none_after_it),
    };
    return cmocka_run_group_tests(tests, make_heap, NULL);
}
