/* SPDX-License-Identifier: MIT
 *
 * test_freeze.c: what threads do while another forks: nobody waits, and nothing is lost.
 */
#include "tests/unit/unit.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/unit/single_step.h"
#include "vm/deferred.h"
#include "vm/fork_chain.h"
#include "vm/freeze.h"

enum { MOST_CALLS = 300 };

static struct lock arena = LOCK_INITIALIZER(RANK_ARENA);
static uintptr_t made[MOST_CALLS]; /* deferred calls, in order */
static size_t made_count;

static void note(const uintptr_t *words)
{
    made[made_count++] = words[0];
}

static int start(void **state)
{
    (void)state;
    fork_chain_add(&arena);
    made_count = 0;
    return 0;
}

static void in_thread(void *(*work)(void *))
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0);
    require(pthread_join(thread, NULL) == 0);
}

static void *go_the_frozen_way(void *unused)
{
    require(!operation_begin());
    for (uintptr_t i = 0; i < MOST_CALLS - 1; i++)
        defer_one(note, (const void *)i);
    frozen_end();
    require(!lock_enter(&arena));
    defer_one(note, (const void *)(uintptr_t)(MOST_CALLS - 1));
    frozen_end();
    return unused;
}

static void *go_the_ordinary_way(void *unused)
{
    require(operation_begin());
    lock_acquire(&arena);
    lock_release(&arena);
    operation_end();
    require(lock_enter(&arena));
    lock_release(&arena);
    return unused;
}

static bool all_calls_were_made_in_order(void)
{
    for (uintptr_t i = 0; i < MOST_CALLS; i++)
        if (made[i] != i)
            return false;
    return made_count == MOST_CALLS;
}

static void test_other_threads_do_not_wait_and_the_parent_makes_their_calls(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        made_count = 0;
        fork_chain_prepare();
        in_thread(go_the_frozen_way);
        assert_int_equal(made_count, 0);
        fork_chain_parent();
        assert_true(all_calls_were_made_in_order());
        in_thread(go_the_ordinary_way);
        go_the_ordinary_way(NULL);
    }
}

static void test_the_child_makes_the_calls_too(void **state)
{
    (void)state;
    int status;
    fork_chain_prepare();
    in_thread(go_the_frozen_way);
    pid_t child = fork();
    if (child == 0) {
        fork_chain_child(NULL);
        bool made_all = all_calls_were_made_in_order();
        go_the_ordinary_way(NULL);
        _exit(made_all ? 0 : 1);
    }
    fork_chain_parent();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_handlers_of_the_thread_that_forks_go_the_frozen_way_too(void **state)
{
    (void)state;
    fork_chain_prepare();
    go_the_frozen_way(NULL);
    fork_chain_parent();
    assert_true(all_calls_were_made_in_order());
}

static int until_operation; /* of the handler: instructions */

static void do_an_operation(void)
{
    if (operation_begin())
        operation_end();
    else
        frozen_end();
}

static void do_one_operation(int number)
{
    (void)number;
    if (--until_operation == 0)
        do_an_operation();
}

static void *step_through_operations(void *unused)
{
    enum { MOST_INSTRUCTIONS = 2000 };
    for (int i = 1; i < MOST_INSTRUCTIONS; i++) {
        until_operation = i;
        step(true);
        do_an_operation();
        step(false);
        require(!operation_is_interrupted()); /* no mark is left */
        if (until_operation > 0)
            return unused;
    }
    require(false);
    return NULL;
}

/* The handler comes once, after any instruction. */
static void test_an_operation_of_a_handler_takes_no_mark_from_the_one_it_interrupts(void **state)
{
    (void)state;
    struct sigaction old;
    const struct sigaction action = {.sa_handler = do_one_operation};
    assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
    step_through_operations(NULL);
    fork_chain_prepare();
    in_thread(step_through_operations);
    fork_chain_parent();
    in_thread(go_the_ordinary_way);
    assert_int_equal(sigaction(SIGTRAP, &old, NULL), 0);
}

static _Atomic bool began, may_end, ended;

static void *work_in_an_operation(void *unused)
{
    require(operation_begin());
    began = true;
    while (!may_end)
        usleep(100);
    lock_acquire(&arena); /* fork takes no lock before the operation is over */
    ended = true;
    lock_release(&arena);
    operation_end();
    return unused;
}

static void *let_it_end(void *unused)
{
    while (arena.state == 0 && !forking_thread)
        usleep(100);
    may_end = true;
    return unused;
}

static void test_fork_waits_for_operations_that_have_begun(void **state)
{
    (void)state;
    pthread_t working, ending;
    began = may_end = ended = false;
    require(pthread_create(&working, NULL, work_in_an_operation, NULL) == 0);
    while (!began)
        usleep(100);
    require(pthread_create(&ending, NULL, let_it_end, NULL) == 0);
    fork_chain_prepare();
    assert_true(ended);
    fork_chain_parent();
    pthread_join(working, NULL);
    pthread_join(ending, NULL);
}

static void *take_and_sleep(void *unused)
{
    require(!lock_enter(&arena)); /* woken by the freeze */
    frozen_end();
    return unused;
}

static void test_who_sleeps_on_a_lock_is_woken_by_the_freeze(void **state)
{
    (void)state;
    pthread_t sleeping;
    lock_acquire(&arena);
    require(pthread_create(&sleeping, NULL, take_and_sleep, NULL) == 0);
    while (!(arena.state & LOCK_WAITED_FOR))
        usleep(100);
    /* What fork_chain_prepare does when it has got the lock before the sleeper. */
    freeze_begin();
    lock_freeze(&arena);
    freeze_end();
    pthread_join(sleeping, NULL);
    thaw_begin();
    lock_release(&arena);
    thaw_end();
    go_the_ordinary_way(NULL);
}

static _Atomic pid_t sleepers[2];

/* Starts a thread and waits until it sleeps. */
static pthread_t start_sleeper(void *(*work)(void *), _Atomic pid_t *place)
{
    pthread_t thread;
    *place = 0;
    require(pthread_create(&thread, NULL, work, (void *)place) == 0);
    while (!*place || !sleeps_in_futex(*place))
        usleep(100);
    return thread;
}

static void *tell_and_sleep(void *place)
{
    *(_Atomic pid_t *)place = gettid();
    return take_and_sleep(NULL);
}

/* Sleeps on the arena's lock, until it is woken: it does not look again by itself. */
static void *sleep_until_woken(void *place)
{
    *(_Atomic pid_t *)place = gettid();
    syscall(SYS_futex, &arena.state, FUTEX_WAIT_PRIVATE, (uint32_t)arena.state, NULL, NULL, 0);
    return NULL;
}

static void test_one_who_wakes_and_goes_the_frozen_way_wakes_the_next(void **state)
{
    (void)state;
    pthread_t threads[2];
    lock_acquire(&arena);
    arena.state |= LOCK_WAITED_FOR;
    threads[0] = start_sleeper(sleep_until_woken, &sleepers[0]);
    threads[1] = start_sleeper(tell_and_sleep, &sleepers[1]);
    /* As if the holder had woken the second, and the thread that forks been faster: no mark says
     * that others sleep, so it wakes nobody. */
    freeze_begin();
    arena.state = current_thread();
    lock_freeze(&arena);
    freeze_end();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    thaw_begin();
    lock_release(&arena);
    thaw_end();
    go_the_ordinary_way(NULL);
}

/* Sleeps on the arena's lock, and is woken first of all. But what it does then is fork: as who runs
 * a signal handler before it takes the lock. */
static void *be_woken_and_fork(void *place)
{
    sleep_until_woken(place);
    fork_chain_prepare();
    fork_chain_parent();
    return NULL;
}

static void *operate_under_lock(void *place)
{
    require(operation_begin());
    *(_Atomic pid_t *)place = gettid();
    lock_acquire(&arena);
    lock_release(&arena);
    operation_end();
    return NULL;
}

static void *fork_under_lock(void *place)
{
    *(_Atomic pid_t *)place = gettid();
    fork_chain_prepare();
    fork_chain_parent();
    return NULL;
}

/* The wake-up goes to the first thread, which then waits for the other. */
static void wake_one_that_forks_beside(void *(*work)(void *))
{
    lock_acquire(&arena);
    arena.state |= LOCK_WAITED_FOR;
    pthread_t woken = start_sleeper(be_woken_and_fork, &sleepers[0]);
    pthread_t other = start_sleeper(work, &sleepers[1]);
    lock_release(&arena);
    pthread_join(woken, NULL);
    pthread_join(other, NULL);
    go_the_ordinary_way(NULL);
}

static void test_an_operation_that_sleeps_goes_on_when_another_was_woken_and_forks(void **state)
{
    (void)state;
    wake_one_that_forks_beside(operate_under_lock);
}

static void test_a_fork_that_sleeps_goes_on_when_another_was_woken_and_forks(void **state)
{
    (void)state;
    wake_one_that_forks_beside(fork_under_lock);
}

static _Atomic bool is_freezing, was_seen_asleep, is_over;

static void *freeze_while_it_sleeps(void *thread)
{
    freeze_begin();
    is_freezing = true;
    while (!was_seen_asleep && !is_over)
        was_seen_asleep = sleeps_in_futex(*(pid_t *)thread);
    freeze_end();
    thaw_begin();
    thaw_end();
    return NULL;
}

static void test_who_gives_back_a_lock_that_is_waited_for_sleeps_while_a_fork_freezes(void **state)
{
    (void)state;
    enum { MOST = 100000 };
    pthread_t forking;
    pid_t self = gettid();
    is_freezing = was_seen_asleep = is_over = false;
    require(pthread_create(&forking, NULL, freeze_while_it_sleeps, &self) == 0);
    while (!is_freezing)
        sched_yield();
    for (int i = 0; i < MOST && !was_seen_asleep; i++) {
        lock_acquire(&arena);
        arena.state |= LOCK_WAITED_FOR;
        lock_release(&arena);
    }
    bool was_seen = was_seen_asleep; /* and not in pthread_join */
    is_over = true;
    pthread_join(forking, NULL);
    assert_true(was_seen);
}

/* own-operation: as if a signal handler had come in between. */
static void fork_inside_of_operation(void *unused)
{
    (void)unused;
    int status;
    require(operation_begin());
    lock_acquire(&arena);
    fork_chain_prepare();
    require(forking_thread == 0);
    pid_t child = fork();
    if (child == 0)
        fork_chain_child(NULL);
    else
        fork_chain_parent();
    require(arena.state == current_thread());
    lock_release(&arena);
    operation_end();
    go_the_ordinary_way(NULL);
    if (child == 0)
        _exit(0);
    require(waitpid(child, &status, 0) == child && status == 0);
}

static void test_a_fork_inside_of_an_operation_resets_nothing_of_it(void **state)
{
    (void)state;
    assert_child_succeeds(fork_inside_of_operation, NULL);
}

static void *fork_often(void *unused)
{
    for (int i = 0; i < 50; i++) {
        fork_chain_prepare();
        fork_chain_parent();
        if (operation_begin())
            operation_end();
        else
            frozen_end();
    }
    return unused;
}

static void test_threads_fork_one_after_the_other(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        require(pthread_create(&threads[i], NULL, fork_often, NULL) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(forking_thread, 0);
    go_the_ordinary_way(NULL);
}

int main(void)
{
    alarm(600); /* who waits where nobody should waits for ever */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_other_threads_do_not_wait_and_the_parent_makes_their_calls,
                               start),
        cmocka_unit_test_setup(test_the_child_makes_the_calls_too, start),
        cmocka_unit_test_setup(test_handlers_of_the_thread_that_forks_go_the_frozen_way_too, start),
        cmocka_unit_test_setup(
            test_an_operation_of_a_handler_takes_no_mark_from_the_one_it_interrupts, start),
        cmocka_unit_test_setup(test_fork_waits_for_operations_that_have_begun, start),
        cmocka_unit_test_setup(test_who_sleeps_on_a_lock_is_woken_by_the_freeze, start),
        cmocka_unit_test_setup(test_one_who_wakes_and_goes_the_frozen_way_wakes_the_next, start),
        cmocka_unit_test_setup(
            test_an_operation_that_sleeps_goes_on_when_another_was_woken_and_forks, start),
        cmocka_unit_test_setup(test_a_fork_that_sleeps_goes_on_when_another_was_woken_and_forks,
                               start),
        cmocka_unit_test_setup(
            test_who_gives_back_a_lock_that_is_waited_for_sleeps_while_a_fork_freezes, start),
        cmocka_unit_test_setup(test_a_fork_inside_of_an_operation_resets_nothing_of_it, start),
        cmocka_unit_test_setup(test_threads_fork_one_after_the_other, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
