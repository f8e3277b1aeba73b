/* SPDX-License-Identifier: MIT
 *
 * test_lock.c: the lock on a futex. Compiled as a debug build, whatever the rest is, so that the
 * check of ranks is tested too.
 */
#include "tests/unit/unit.h"

#include <pthread.h>

#include "vm/lock.h"

#ifdef NDEBUG
#error "tests of the rank check need a debug build of lock.c"
#endif

static struct lock lock = LOCK_INITIALIZER(RANK_ARENA);
static struct lock lower = LOCK_INITIALIZER(RANK_REGISTRY);
static struct lock equal = LOCK_INITIALIZER(RANK_ARENA);

enum { THREADS = 4, TURNS = 50000 };
static unsigned long counter; /* under the lock */

static void *count(void *unused)
{
    for (int i = 0; i < TURNS; i++) {
        lock_acquire(&lock);
        counter++;
        lock_release(&lock);
    }
    return unused;
}

static void test_one_thread_at_a_time(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(counter, THREADS * TURNS);
    assert_int_equal(lock.state, 0);
}

static _Atomic bool entered;

static void *wait_and_enter(void *unused)
{
    lock_acquire(&lock);
    entered = true;
    lock_release(&lock);
    return unused;
}

static void test_a_waiter_sleeps_until_it_is_woken(void **state)
{
    (void)state;
    pthread_t thread;
    lock_acquire(&lock);
    assert_int_equal(lock.state, current_thread());
    assert_int_equal(pthread_create(&thread, NULL, wait_and_enter, NULL), 0);
    while (lock.state != (current_thread() | LOCK_WAITED_FOR))
        usleep(100);
    assert_false(entered);
    lock_release(&lock);
    pthread_join(thread, NULL);
    assert_true(entered);
}

static void acquire_twice(void *argument)
{
    (void)argument;
    lock_acquire(&lock);
    lock_acquire(&lock);
}

static void test_a_thread_that_waits_for_itself_is_told(void **state)
{
    (void)state;
    assert_aborts(acquire_twice, NULL, "allotrope: a signal handler called malloc or free");
}

static void use_after_reset(void *argument)
{
    (void)argument;
    lock_reset(&lock);
    require(lock.state == 0);
    lock_acquire(&lock);
    lock_release(&lock);
}

static void test_a_forked_child_resets_what_its_parent_held(void **state)
{
    (void)state;
    lock_acquire(&lock);
    assert_child_succeeds(use_after_reset, NULL);
    lock_release(&lock);
}

static void acquire_downwards(void *argument)
{
    (void)argument;
    lock_acquire(&lock);
    lock_acquire(&lower);
}

static void release_unheld(void *argument)
{
    (void)argument;
    lock_release(&lock);
}

static void test_ranks_are_taken_upwards_only(void **state)
{
    (void)state;
    lock_acquire(&lower);
    lock_acquire(&lock);
    lock_acquire(&equal); /* as fork does with arenas */
    lock_release(&equal);
    lock_release(&lock);
    lock_release(&lower);
    assert_aborts(acquire_downwards, NULL,
                  "check failed: held[rank] == 0 || heap_is_frozen_by_this_thread() (lock.c:");
    assert_aborts(release_unheld, NULL, "check failed: held[lock->rank] > 0 (lock.c:");
}

static void *try_to_take(void *unused)
{
    return lock_try(&lock) ? &lock : unused;
}

static void test_a_lock_that_is_held_is_not_waited_for(void **state)
{
    (void)state;
    pthread_t thread;
    void *taken;
    assert_true(lock_try(&lock));
    assert_int_equal(pthread_create(&thread, NULL, try_to_take, NULL), 0);
    pthread_join(thread, &taken);
    assert_null(taken);
    assert_false(lock_try(&lock));
    lock_release(&lock);
    assert_int_equal(lock.state, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread_at_a_time),
        cmocka_unit_test(test_a_waiter_sleeps_until_it_is_woken),
        cmocka_unit_test(test_a_thread_that_waits_for_itself_is_told),
        cmocka_unit_test(test_a_forked_child_resets_what_its_parent_held),
        cmocka_unit_test(test_ranks_are_taken_upwards_only),
        cmocka_unit_test(test_a_lock_that_is_held_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
