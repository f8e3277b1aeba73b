/* SPDX-License-Identifier: MIT
 *
 * test_remote.c: frees of blocks of other threads' slabs: [bit before queue], [queue is a hint]
 * (alloc/blocks/heap.h), and that none is lost or looks like the program's between.
 */
#include <pthread.h>
#include <signal.h>

#include "alloc/blocks/lookup.h"
#include "alloc/blocks/remote.h"
#include "alloc/blocks/slabs.h"
#include "tests/unit/single_step.h"
#include "tests/unit/unit.h"

enum { BYTES = 112, BLOCKS = 40 };

/* Blocks of one slab of the calling thread's, which is made for them: what was allocated before
 * fills the slab up to there. */
static struct slab *alloc_in_one_slab(void *blocks[BLOCKS])
{
    struct slab *slab = NULL;
    for (size_t i = 0; i < BLOCKS;) {
        blocks[i] = blocks_alloc(BYTES);
        assert_non_null(blocks[i]);
        if (slab_at(blocks[i]) == slab) {
            i++;
            continue;
        }
        slab = slab_at(blocks[i]);
        blocks[0] = blocks[i];
        i = 1;
    }
    return slab;
}

static size_t index_in(const struct slab *slab, const void *block)
{
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    assert_true(exact);
    return index;
}

static void free_remotely(struct slab *slab, void *block)
{
    push_remote_free(slab, block, index_in(slab, block));
}

static bool is_free(const struct slab *slab, const void *block)
{
    size_t index = index_in(slab, block);
    return (slab_free(&slab->words[index / SLAB_WORD_BLOCKS]) & slab_bit(index)) != 0;
}

static bool is_remote(const struct slab *slab, const void *block)
{
    size_t index = index_in(slab, block);
    return (slab->words[index / SLAB_WORD_BLOCKS].remote & slab_bit(index)) != 0;
}

static struct bin *bin_at(const void *block)
{
    return fast_table.bins[fast_table_unit(block) / UNITS_PER_GRANULE];
}

static void test_any_number_of_frees_queues_the_slab_once(void **state)
{
    (void)state;
    void *blocks[BLOCKS];
    struct slab *slab = alloc_in_one_slab(blocks);
    assert_null(take_remote_queue(&thread_heap->remote_queue));
    assert_non_null(bin_at(blocks[0]));
    for (size_t i = 0; i < BLOCKS / 2; i++)
        free_remotely(slab, blocks[i]);
    assert_true(slab->queued);
    assert_null(bin_at(blocks[0])); /* the owning thread's frees go the slow way */
    assert_ptr_equal(thread_heap->remote_queue.newest, slab);
    assert_null(slab->next_queued);
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(is_remote(slab, blocks[i]), i < BLOCKS / 2);
        assert_false(is_free(slab, blocks[i]));
        assert_int_equal(block_is_live(slab, index_in(slab, blocks[i])), i >= BLOCKS / 2);
    }
    rebin_queued(thread_heap);
}

static void test_taking_makes_free_blocks_of_what_was_freed(void **state)
{
    (void)state;
    void *blocks[BLOCKS];
    struct slab *slab = alloc_in_one_slab(blocks);
    for (size_t i = 0; i < BLOCKS; i += 2)
        free_remotely(slab, blocks[i]);
    assert_ptr_equal(take_remote_queue(&thread_heap->remote_queue), slab);
    assert_null(take_remote_queue(&thread_heap->remote_queue));
    take_remote_frees(slab);
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_false(is_remote(slab, blocks[i]));
        assert_int_equal(is_free(slab, blocks[i]), i % 2 == 0);
        assert_int_equal(unit_is_live(fast_table_unit(blocks[i])), i % 2 == 1);
    }
    push_to_owner(slab);
    rebin_queued(thread_heap);
    assert_false(slab->queued);
    assert_non_null(bin_at(blocks[1]));
}

static struct slab *watched;
static const void *watched_block;
static size_t steps, seen_live;

/* As a collection that stops the thread here sees the block. */
static void look(int number)
{
    (void)number;
    bool exact;
    size_t index = slab_index(watched, watched_block, &exact);
    steps++;
    seen_live += (slab_live(watched, index / SLAB_WORD_BLOCKS) & slab_bit(index)) != 0;
}

static void test_a_block_that_is_being_taken_never_looks_like_the_programs(void **state)
{
    (void)state;
    const struct sigaction action = {.sa_handler = look};
    void *blocks[BLOCKS];
    watched = alloc_in_one_slab(blocks);
    watched_block = blocks[BLOCKS / 2];
    free_remotely(watched, blocks[BLOCKS / 2]);
    assert_ptr_equal(take_remote_queue(&thread_heap->remote_queue), watched);
    assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
    step(true);
    take_remote_frees(watched);
    step(false);
    assert_true(is_free(watched, watched_block));
    assert_in_range(steps, 20, SIZE_MAX);
    assert_int_equal(seen_live, 0);
    push_to_owner(watched);
    rebin_queued(thread_heap);
}

/* What comes while the owning thread is between `queued` and the bits is queued again. */
static void test_a_free_behind_the_taking_of_the_queue_queues_again(void **state)
{
    (void)state;
    void *blocks[BLOCKS];
    struct slab *slab = alloc_in_one_slab(blocks);
    free_remotely(slab, blocks[0]);
    assert_ptr_equal(take_remote_queue(&thread_heap->remote_queue), slab);
    free_remotely(slab, blocks[1]); /* `queued` is still set: the owning thread will see the bit */
    assert_null(thread_heap->remote_queue.newest);
    slab->queued = false;
    free_remotely(slab, blocks[2]);
    assert_ptr_equal(thread_heap->remote_queue.newest, slab);
    take_remote_frees(slab);
    for (size_t i = 0; i < 3; i++)
        assert_true(is_free(slab, blocks[i]));
    rebin_queued(thread_heap);
}

static void test_the_slab_queued_last_is_taken_first(void **state)
{
    (void)state;
    void *blocks[2][BLOCKS];
    struct slab *slabs[2];
    slabs[0] = alloc_in_one_slab(blocks[0]);
    do
        slabs[1] = alloc_in_one_slab(blocks[1]);
    while (slabs[1] == slabs[0]);
    free_remotely(slabs[0], blocks[0][0]);
    free_remotely(slabs[1], blocks[1][0]);
    free_remotely(slabs[0], blocks[0][1]);
    assert_ptr_equal(take_remote_queue(&thread_heap->remote_queue), slabs[1]);
    assert_ptr_equal(slabs[1]->next_queued, slabs[0]);
    assert_null(slabs[0]->next_queued);
    push_to_owner(slabs[0]);
    push_to_owner(slabs[1]);
    rebin_queued(thread_heap);
}

static struct slab *abandoned;
static void *of_abandoned[BLOCKS];

static void *leave_a_slab(void *unused)
{
    (void)unused;
    abandoned = alloc_in_one_slab(of_abandoned);
    blocks_thread_exit();
    return NULL;
}

static void test_an_abandoned_slab_goes_to_the_heaps_queue(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, leave_a_slab, NULL), 0);
    pthread_join(thread, NULL);
    assert_null(thread_heap_of(abandoned));
    take_remote_queue(&blocks_heap.abandoned_queue);
    free_remotely(abandoned, of_abandoned[0]);
    assert_ptr_equal(blocks_heap.abandoned_queue.newest, abandoned);
    assert_null(thread_heap->remote_queue.newest);
}

static void free_twice(void *argument)
{
    struct slab *slab = slab_at(argument);
    free_remotely(slab, argument);
    free_remotely(slab, argument);
}

static void test_a_block_that_is_freed_twice_is_found(void **state)
{
    (void)state;
    void *blocks[BLOCKS];
    alloc_in_one_slab(blocks);
    assert_aborts(free_twice, blocks[BLOCKS / 2], "): not a live block (freed twice");
}

/* Two threads free while the owning thread takes. */
enum { THREADS = 2, MANY = 200000 };
static void *many[MANY];
static _Atomic size_t ended;

static void *free_share(void *argument)
{
    for (size_t i = (size_t)argument; i < MANY; i += THREADS)
        free_remotely(slab_at(many[i]), many[i]);
    ended++;
    return NULL;
}

/* Of the current slab of a bin the owning thread takes the remote frees when it leaves it. */
static void count_lost(void *argument, struct slab *slab)
{
    if (slab->state != SLAB_CURRENT && !slab_is_large(slab))
        for (size_t i = 0; i < slab_words(slab); i++)
            *(uint32_t *)argument += count_bits(slab->words[i].remote);
}

static void test_no_free_is_lost_while_the_owning_thread_takes(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    uint32_t lost = 0;
    for (size_t i = 0; i < MANY; i++)
        many[i] = blocks_alloc(BYTES);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, free_share, (void *)i), 0);
    while (ended < THREADS)
        rebin_queued(thread_heap);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    rebin_queued(thread_heap);
    blocks_lock();
    blocks_each_slab(count_lost, &lost);
    blocks_unlock();
    assert_int_equal(lost, 0);
    assert_true(blocks_is_valid());
}

static int start(void **state)
{
    (void)state;
    return blocks_init(25, NULL) && blocks_alloc(1) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_frees_queues_the_slab_once),
        cmocka_unit_test(test_taking_makes_free_blocks_of_what_was_freed),
        cmocka_unit_test(test_a_block_that_is_being_taken_never_looks_like_the_programs),
        cmocka_unit_test(test_a_free_behind_the_taking_of_the_queue_queues_again),
        cmocka_unit_test(test_the_slab_queued_last_is_taken_first),
        cmocka_unit_test(test_an_abandoned_slab_goes_to_the_heaps_queue),
        cmocka_unit_test(test_a_block_that_is_freed_twice_is_found),
        cmocka_unit_test(test_no_free_is_lost_while_the_owning_thread_takes),
    };
    return cmocka_run_group_tests_name("remote frees", tests, start, NULL);
}
