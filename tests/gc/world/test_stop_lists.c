/* SPDX-License-Identifier: MIT
 *
 * test_stop_lists.c: every thread is stopped, though the kernel's lists lack one. A thread that
 * ends while it is listed hides the one behind it.
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

/* Included, not linked: the test tells which threads there are. */
#define process_each_thread tell_list
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
    };
    return cmocka_run_group_tests_name("lists of threads", tests, open_stop, NULL);
}
