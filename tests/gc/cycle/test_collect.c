/* SPDX-License-Identifier: MIT */
#include "cycle_unit.h"

#include <signal.h>
#include <sys/syscall.h>

#include "gc/cycle/collect_state.h"
#include "gc/cycle/pace.h"

enum { LEAKS = 100 };

static int make_collector(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {.before_growth = grow};
    static const struct pace_options pace = {.policy = POLICY_AUTO};
    static const struct collect_options options = {
        .markers = 1, .stack_bytes = 1 << 20, .leaks = SWEEP_KEEP};
    pace_init(&pace);
    return blocks_init(25, &collector) && collect_init(&options) ? 0 : -1;
}

/* Signals. */

static volatile sig_atomic_t handled, handled_too_early;

static void note_locks(int signal)
{
    (void)signal;
    handled++;
    if (!lock_try(&collect_state.lock)) {
        handled_too_early++;
        return;
    }
    lock_release(&collect_state.lock);
}

static void catch_signal(void)
{
    struct sigaction action = {.sa_handler = note_locks};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    handled = handled_too_early = 0;
}

static NOT_INLINED void lose_blocks(void)
{
    void **chain = NULL;
    for (size_t i = 0; i < LEAKS; i++) {
        void **block = new_parent(64);
        *block = chain;
        chain = block;
    }
}

static size_t visited;

static void signal_in_the_stop(void *unused, const void *block, bool is_direct)
{
    (void)unused;
    (void)block;
    (void)is_direct;
    if (visited++ == 0)
        syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), SIGUSR1);
}

/* A handler that forks under the collector's locks may wait for ever. */
static void test_a_signal_of_the_stop_is_delivered_when_the_locks_are_free(void **state)
{
    (void)state;
    catch_signal();
    lose_blocks();
    wipe_stack();
    enum leaks_found found = LEAKS_LATER;
    for (int attempt = 0; attempt < 20 && visited == 0; attempt++)
        found = collect_find_leaks(signal_in_the_stop, NULL, true);
    assert_int_equal(found, LEAKS_FOUND);
    assert_true(visited > 0);
    assert_int_equal(handled, 1);
    assert_int_equal(handled_too_early, 0);
}

static void test_what_a_thread_blocks_is_as_before_a_collection(void **state)
{
    (void)state;
    sigset_t one, before, after;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &one, NULL), 0);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
    collect(CAUSE_ASKED, 0);
    collect_slice(1);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
    for (int signal = 1; signal < 65; signal++)
        assert_int_equal(sigismember(&after, signal), sigismember(&before, signal));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_signal_of_the_stop_is_delivered_when_the_locks_are_free),
        cmocka_unit_test(test_what_a_thread_blocks_is_as_before_a_collection),
    };
    return cmocka_run_group_tests(tests, make_collector, NULL);
}
