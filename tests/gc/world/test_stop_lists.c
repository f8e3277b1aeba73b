/* SPDX-License-Identifier: MIT
 *
 * test_stop_lists.c: what a stop makes of what the kernel tells. Every thread is stopped, though
 * the kernel's lists lack one: a thread that ends while it is listed hides the one behind it. Who
 * answers while the kernel is asked about it has answered.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "gc/world/stop.h"
#include "vm/kernel/process.h"

enum { MOST_LISTS = 8, NO_THREAD = 1 << 22 };

/* What each list names, in order; the last one is read again and again. */
static pid_t lists[MOST_LISTS][2];
static unsigned list_count, lists_read;

static bool tell_list(bool (*each)(void *argument, pid_t thread), void *argument)
{
    unsigned list = lists_read++;
    if (list >= list_count)
        list = list_count - 1;
    for (int i = 0; i < 2; i++)
        if (lists[list][i] != 0 && !each(argument, lists[list][i]))
            return false;
    return true;
}

static void (*when_asked)(void);

/* A thread that has answered sleeps until the world goes on. */
static bool tell_state(pid_t thread, char *state, unsigned long *flags)
{
    if (!when_asked)
        return process_thread_state(thread, state, flags);
    when_asked();
    *state = 'S';
    *flags = 0;
    return true;
}

/* Included, not linked: the test tells which threads there are, and what they do. */
#define process_each_thread tell_list
#define process_thread_state tell_state
#include "gc/world/stop.c"

static _Atomic uint64_t counted;
static _Atomic pid_t counting;
static _Atomic bool enough;

static void *count_on(void *unused)
{
    (void)unused;
    counting = (pid_t)syscall(SYS_gettid);
    while (!enough)
        counted++;
    return NULL;
}

static void stop_with_signals_blocked(void)
{
    uint64_t all = UINT64_MAX, before = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    enum stop_failure failure = STOP_TIMEOUT;
    for (int attempt = 0; attempt < 20 && failure == STOP_TIMEOUT; attempt++) {
        lists_read = 0;
        failure = stop_world();
    }
    uint64_t then = counted;
    usleep(2000);
    uint64_t now = counted;
    resume_world();
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    assert_int_equal(failure, STOP_DONE);
    assert_int_equal(then, now);
}

/* The process has no thread of the number NO_THREAD: it has ended after it was listed. */
static void test_who_stands_behind_one_that_ends_is_stopped(void **state)
{
    (void)state;
    pthread_t thread;
    enough = false;
    counting = 0;
    assert_int_equal(pthread_create(&thread, NULL, count_on, NULL), 0);
    while (counting == 0)
        sched_yield();
    pid_t self = (pid_t)syscall(SYS_gettid);
    const pid_t told[][2] = {{NO_THREAD, self}, {NO_THREAD, self}, {self, counting}};
    memcpy(lists, told, sizeof told);
    list_count = sizeof told / sizeof *told;
    stop_with_signals_blocked();
    assert_in_range(lists_read, 4, MOST_LISTS);
    enough = true;
    pthread_join(thread, NULL);
}

/* A thread that has ended before the last list is in none since. */
static void test_one_that_ended_earlier_costs_no_further_list(void **state)
{
    (void)state;
    pid_t self = (pid_t)syscall(SYS_gettid);
    const pid_t told[][2] = {{NO_THREAD, self}, {self, 0}};
    memcpy(lists, told, sizeof told);
    list_count = sizeof told / sizeof *told;
    stop_with_signals_blocked();
    assert_int_equal(lists_read, 2);
}

static void answer(void)
{
    stop.records[0].state = (uintptr_t)&stop; /* the address of its frame */
}

static void do_nothing(void)
{
}

static void test_who_answers_while_it_is_asked_about_is_not_missing(void **state)
{
    (void)state;
    struct thread_record saved = stop.records[0];
    size_t count = stop.count;
    stop.count = 1;
    stop.records[0].thread = (pid_t)syscall(SYS_gettid);
    stop.records[0].state = EXPECTED | stop.epoch;
    when_asked = do_nothing;
    struct missing missing = count_missing_acks(true);
    assert_int_equal(missing.count, 1);
    assert_int_equal(missing.doubtful, 1);
    when_asked = answer;
    missing = count_missing_acks(true);
    assert_int_equal(missing.count, 0);
    assert_int_equal(missing.doubtful, 0);
    when_asked = NULL;
    stop.records[0] = saved;
    stop.count = count;
}

static int open_stop(void **state)
{
    (void)state;
    return process_open() && stop_init() ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_stands_behind_one_that_ends_is_stopped),
        cmocka_unit_test(test_one_that_ended_earlier_costs_no_further_list),
        cmocka_unit_test(test_who_answers_while_it_is_asked_about_is_not_missing),
    };
    return cmocka_run_group_tests_name("lists of threads", tests, open_stop, NULL);
}
