/* SPDX-License-Identifier: MIT
 *
 * test_delay.c: how long a dead block waits before it is free.
 */
#include <pthread.h>
#include <semaphore.h>

#include "alloc/blocks/lookup.h"
#include "alloc/checked/delay.h"
#include "tests/unit/unit.h"
#include "vm/fork_chain.h"

enum { BYTES = 112, BLOCKS = 4000 };

static void *blocks[BLOCKS];

/* As free of blocks:checked does with a block that it has looked at. */
static void end_and_delay(void *block)
{
    clear_live(fast_table_unit(block));
    delay_free(&thread_heap->bins[slab_at(block)->class_index], block);
}

static bool is_free(const void *block)
{
    struct slab *slab = slab_at(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    return (slab_free(&slab->words[index / SLAB_WORD_BLOCKS]) & slab_bit(index)) != 0;
}

/* One of each sixteen stays, so that no slab is given back. */
static bool stays(size_t i)
{
    return i % 16 == 0;
}

static void alloc_all(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        assert_non_null(blocks[i] = blocks_alloc(BYTES));
}

static size_t count_waiting(size_t end)
{
    size_t waiting = 0;
    for (size_t i = 0; i < end; i++)
        waiting += !stays(i) && !is_free(blocks[i]);
    return waiting;
}

static void test_so_many_wait_and_never_the_one_freed_last(void **state)
{
    (void)state;
    size_t most = 0;
    alloc_all();
    for (size_t i = 0; i < BLOCKS; i++) {
        if (stays(i))
            continue;
        end_and_delay(blocks[i]);
        assert_false(is_free(blocks[i]));
        size_t waiting = i < 1000 ? count_waiting(i + 1) : most;
        assert_in_range(waiting, most, DELAYED);
        most = waiting;
    }
    assert_int_equal(count_waiting(BLOCKS), DELAYED);
    delay_thread_exit();
    assert_int_equal(count_waiting(BLOCKS), 0);
}

/* The frees that a block waits are 32 on average, for one place in 32 is taken by each; a queue
 * would make it the same number for all. */
static void test_how_long_a_block_waits_is_not_to_be_foreseen(void **state)
{
    (void)state;
    enum { WATCHED = 256 };
    size_t waited[WATCHED] = {0}, short_waits = 0, long_waits = 0;
    alloc_all();
    for (size_t i = 0; i < BLOCKS; i++) {
        if (stays(i))
            continue;
        end_and_delay(blocks[i]);
        for (size_t each = 0; each < WATCHED && each <= i; each++)
            waited[each] += !stays(each) && !is_free(blocks[each]);
    }
    for (size_t each = 0; each < WATCHED; each++) {
        short_waits += !stays(each) && waited[each] < DELAYED / 2;
        long_waits += waited[each] > 2 * DELAYED;
    }
    assert_in_range(short_waits, 50, 150); /* of 240, some 39% and 13% */
    assert_in_range(long_waits, 8, 70);
    delay_thread_exit();
}

static bool some_waited;

static void *free_some(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = blocks_alloc(BYTES);
    for (size_t i = 1; i < 16; i++)
        end_and_delay(blocks[i]);
    some_waited = count_waiting(16) > 0;
    delay_thread_exit();
    return NULL;
}

static void test_a_thread_that_ends_leaves_nothing_waiting(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_some, NULL), 0);
    pthread_join(thread, NULL);
    assert_true(some_waited);
    assert_int_equal(count_waiting(16), 0);
}

static pthread_barrier_t freed, looked;

static void *free_some_and_wait(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = blocks_alloc(BYTES);
    for (size_t i = 1; i < 16; i++)
        end_and_delay(blocks[i]);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&looked);
    return NULL;
}

static void look_in_child(void *own)
{
    end_and_delay(own);
    delay_fork_child();
    require(count_waiting(16) == 0);
    require(!is_free(own)); /* the thread that forked goes on waiting */
}

static sem_t may_free;

static void *free_a_first_block(void *block)
{
    sem_wait(&may_free);
    delay_free(&thread_heap->bins[0], NULL);
    return thread_heap->delay ? block : NULL;
}

/* Or the join does not come back. */
static void test_a_threads_first_free_does_not_wait_for_the_end_of_a_fork(void **state)
{
    (void)state;
    pthread_t thread;
    void *started = &may_free;
    sem_init(&may_free, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, free_a_first_block, &may_free), 0);
    fork_chain_prepare();
    sem_post(&may_free);
    pthread_join(thread, &started);
    fork_chain_parent();
    assert_null(started);
}

static void test_a_forked_child_frees_what_waited_in_other_threads(void **state)
{
    (void)state;
    pthread_t thread;
    void *own = blocks_alloc(BYTES);
    pthread_barrier_init(&freed, NULL, 2);
    pthread_barrier_init(&looked, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, free_some_and_wait, NULL), 0);
    pthread_barrier_wait(&freed);
    assert_true(count_waiting(16) > 0);
    assert_child_succeeds(look_in_child, own);
    pthread_barrier_wait(&looked);
    pthread_join(thread, NULL);
}

static int start(void **state)
{
    (void)state;
    return blocks_init(25, NULL) && blocks_alloc(1) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_so_many_wait_and_never_the_one_freed_last),
        cmocka_unit_test(test_how_long_a_block_waits_is_not_to_be_foreseen),
        cmocka_unit_test(test_a_thread_that_ends_leaves_nothing_waiting),
        cmocka_unit_test(test_a_threads_first_free_does_not_wait_for_the_end_of_a_fork),
        cmocka_unit_test(test_a_forked_child_frees_what_waited_in_other_threads),
    };
    return cmocka_run_group_tests_name("delayed frees", tests, start, NULL);
}
