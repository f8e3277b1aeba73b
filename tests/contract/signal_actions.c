/* SPDX-License-Identifier: MIT
 *
 * signal_actions.c: what is done on a signal, set and told by each function that libc has for it.
 *
 * A wrapper of them that goes past libc answers as libc does, keeps what the kernel is told, and
 * leaves a handler's frame such that debuggers and exceptions find the way out of it.
 * Seen: a restorer that unwinders do not know ends each backtrace in the handler.
 */
#include <execinfo.h>
#include <signal.h>

#include "tests/contract/contract.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt */

sighandler_t bsd_signal(int number, sighandler_t handler);
sighandler_t sysv_signal(int number, sighandler_t handler);
int __sigaction(int number, const struct sigaction *action, struct sigaction *old);

static volatile int handled;

static void on_signal(int number)
{
    handled = number;
}

static void on_other(int number)
{
    handled = -number;
}

static struct sigaction action_of(int number)
{
    struct sigaction action;
    require(sigaction(number, NULL, &action) == 0);
    return action;
}

static void refused(void)
{
    static const int numbers[] = {-1, 0, 32, 33, 65, 1000};
    struct sigaction action = {.sa_handler = on_signal};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        require(sigaction(numbers[i], &action, NULL) == -1 && errno == EINVAL);
        require(sigaction(numbers[i], NULL, &action) == -1 && errno == EINVAL);
        require(signal(numbers[i], on_signal) == SIG_ERR && errno == EINVAL);
        require(sysv_signal(numbers[i], on_signal) == SIG_ERR && errno == EINVAL);
        require(siginterrupt(numbers[i], 1) == -1 && errno == EINVAL);
    }
    require(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL);
    require(signal(SIGUSR1, SIG_ERR) == SIG_ERR && errno == EINVAL);
}

static void told(int number)
{
    struct sigaction set = {.sa_handler = on_signal, .sa_flags = SA_NODEFER | SA_ONSTACK}, old;
    sigaddset(&set.sa_mask, SIGHUP);
    require(sigaction(number, &set, NULL) == 0);
    old = action_of(number);
    require(old.sa_handler == on_signal && sigismember(&old.sa_mask, SIGHUP) == 1);
    require((old.sa_flags & 0xFBFFFFFF) == (SA_NODEFER | SA_ONSTACK)); /* but SA_RESTORER */
    set.sa_handler = on_other;
    require(__sigaction(number, &set, &old) == 0 && old.sa_handler == on_signal);
    require(signal(number, on_signal) == on_other && raise(number) == 0 && handled == number);
    old = action_of(number);
    require(old.sa_flags & SA_RESTART && sigismember(&old.sa_mask, number) == 1);
    require(signal(number, SIG_IGN) == on_signal && raise(number) == 0);
    require(signal(number, SIG_DFL) == SIG_IGN);
}

static void interrupting(int number)
{
    require(signal(number, on_signal) == SIG_DFL && siginterrupt(number, 1) == 0);
    require(action_of(number).sa_handler == on_signal);
    require(!(action_of(number).sa_flags & SA_RESTART));
    require(signal(number, on_other) == on_signal && !(action_of(number).sa_flags & SA_RESTART));
    require(siginterrupt(number, 0) == 0 && (action_of(number).sa_flags & SA_RESTART));
    require(bsd_signal(number, SIG_DFL) == on_other && (action_of(number).sa_flags & SA_RESTART));
    require(sysv_signal(number, on_signal) == SIG_DFL);
    require(raise(number) == 0 && handled == number && action_of(number).sa_handler == SIG_DFL);
}

static void served_once(int number)
{
    const int flags = SA_RESETHAND | SA_NODEFER | SA_RESTART;
    struct sigaction set = {.sa_handler = on_signal, .sa_flags = flags}, after;
    sigfillset(&set.sa_mask);
    require(sigaction(number, &set, NULL) == 0 && raise(number) == 0 && handled == number);
    after = action_of(number);
    require(after.sa_handler == SIG_DFL && (after.sa_flags & 0xFBFFFFFF) == (flags & 0xFBFFFFFF));
    require(sigismember(&after.sa_mask, SIGHUP) == 1);
    require(sigismember(&after.sa_mask, SIGKILL) == 0 && sigismember(&after.sa_mask, SIGSTOP) == 0);
}

static void *return_address;
static volatile bool is_found;

static void look_back(int number)
{
    void *frames[64];
    int count = backtrace(frames, 64);
    (void)number;
    for (int i = 0; i < count; i++)
        is_found |= frames[i] == return_address;
}

static __attribute__((noinline)) void raise_here(int number)
{
    return_address = __builtin_return_address(0);
    require(raise(number) == 0);
    __asm__ volatile("" ::: "memory");
}

int main(void)
{
    static const int numbers[] = {SIGUSR1, SIGABRT, SIGTERM, SIGSEGV, 64};
    void *frame;
    backtrace(&frame, 1); /* loads what it needs */
    exercise();
    refused();
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        told(numbers[i]);
        interrupting(numbers[i]);
        served_once(numbers[i]);
        require(signal(numbers[i], look_back) == SIG_DFL);
        is_found = false;
        raise_here(numbers[i]);
        require(is_found);
    }
    exercise();
    return 0;
}
