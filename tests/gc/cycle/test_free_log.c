/* SPDX-License-Identifier: MIT
 *
 * test_free_log.c: which site of a block's frees is told, and for how long.
 */
#include "tests/unit/unit.h"

#include <pthread.h>

/* Included, not linked: its state is made anew for each test. */
#include "gc/cycle/free_log.c"

static __thread _Atomic uint64_t own;

/* Of a block's address only the number counts, and of a site. */
static const void *at(uintptr_t number)
{
    return (const void *)(number << 4);
}

static void note(uintptr_t block, uintptr_t site, uint64_t releases)
{
    free_log_note(&own, at(block), at(site), releases);
}

static uintptr_t site_of(uintptr_t block)
{
    return free_log_site(at(block)) >> 4;
}

static int start(void **state)
{
    (void)state;
    frees.taken = 0;
    own = 0;
    return free_log_init() ? 0 : -1;
}

static void test_nothing_is_known_of_a_block_that_was_not_freed(void **state)
{
    (void)state;
    assert_int_equal(site_of(1), 0);
    note(1, 10, 0);
    assert_int_equal(site_of(2), 0);
    assert_int_equal(site_of(1), 10);
}

static void test_the_last_frees_are_known_and_earlier_ones_not(void **state)
{
    (void)state;
    enum { MANY = 3 * FREE_LOG_PLACES + 17, KNOWN = FREE_LOG_PLACES - FREE_LOG_CHUNK };
    for (uintptr_t i = 1; i <= MANY; i++)
        note(i, i + 1, 0);
    for (uintptr_t i = MANY; i > MANY - KNOWN; i--)
        assert_int_equal(site_of(i), i + 1);
    assert_int_equal(site_of(MANY - FREE_LOG_PLACES), 0);
}

/* The ring has come round to a chunk whose other places still have frees of before. */
static void test_the_latest_free_of_a_block_is_told(void **state)
{
    (void)state;
    for (uintptr_t i = 0; i < FREE_LOG_PLACES; i++)
        note(7, 10, 0);
    note(7, 11, 0);
    for (uintptr_t i = 0; i < FREE_LOG_CHUNK; i++)
        note(8, 12, 0);
    assert_int_equal(site_of(7), 11);
}

static pthread_barrier_t both;

static void *free_first(void *unused)
{
    note(1, 20, 0); /* takes a chunk behind the other thread's */
    note(7, 21, 0);
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    return unused;
}

/* Another thread has freed the block, in a chunk that was taken later. It was released since. */
static void test_a_thread_takes_a_new_chunk_after_a_release(void **state)
{
    (void)state;
    pthread_t other;
    note(1, 10, 0);
    pthread_barrier_init(&both, NULL, 2);
    assert_int_equal(pthread_create(&other, NULL, free_first, NULL), 0);
    pthread_barrier_wait(&both);
    assert_int_equal(site_of(7), 21);
    note(7, 11, 1);
    assert_int_equal(site_of(7), 11);
    pthread_barrier_wait(&both);
    pthread_join(other, NULL);
}

static void test_without_memory_nothing_is_known(void **state)
{
    (void)state;
    struct place *places = frees.places;
    frees.places = NULL;
    note(1, 10, 0);
    assert_int_equal(site_of(1), 0);
    frees.places = places;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing_is_known_of_a_block_that_was_not_freed, start),
        cmocka_unit_test_setup(test_the_last_frees_are_known_and_earlier_ones_not, start),
        cmocka_unit_test_setup(test_the_latest_free_of_a_block_is_told, start),
        cmocka_unit_test_setup(test_a_thread_takes_a_new_chunk_after_a_release, start),
        cmocka_unit_test_setup(test_without_memory_nothing_is_known, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
