/* SPDX-License-Identifier: MIT
 *
 * signals.c: the program's signal handlers, for an allocator that has a handler of SIGSEGV of its
 * own in front of the program's (struct allocator, fault_action), or wants to know when handlers
 * return (handler_restorers). All else goes to libc.
 *
 * The restorer is set in the same call of the kernel as the handler. libc sets its own, and setting
 * another afterwards could undo what another thread, or a handler, has set meanwhile. So libc is
 * not called then, unless it does more than that call, or a library between has the function.
 *
 * A program that makes the system call itself, as Go's do, replaces the allocator's handler. Its
 * faults are not reported from then on. So it is in a static program, which has libc's own
 * functions.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/next_call.h"
#include "shim/route/route.h"
#include "vm/kernel_action.h"
#include "vm/signals.h"

#ifdef PIC

/* libc's has another name, too. */
static bool sigaction_is_libcs(void)
{
    NEXT_FUNCTION(by_name, "sigaction");
    NEXT_FUNCTION(by_other_name, "__sigaction");
    void *found = next_of(&by_name);
    return found && found == next_of(&by_other_name);
}

/* Whether it is a signal's number, and all that libc does with it is to call the kernel. It keeps
 * two signals to itself. Newer ones hold a lock while SIGABRT is set. */
static bool is_plain(int number)
{
    enum { CANCEL = 32, SETXID = 33, LAST = 64 };
    return number > 0 && number <= LAST && number != SIGABRT && number != CANCEL &&
           number != SETXID;
}

/* Who has a say in what the program does with the signal. NULL: libc alone. */
static const struct allocator *allocator_of(int number)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (allocator->fault_action && number == SIGSEGV)
        return allocator;
    return allocator->handler_restorers[0] && is_plain(number) && sigaction_is_libcs() ? allocator
                                                                                       : NULL;
}

static struct kernel_action to_kernel(const struct allocator *allocator,
                                      const struct sigaction *action)
{
    void (*restorer)(void) = allocator->handler_restorers[(action->sa_flags & SA_RESTART) != 0];
    struct kernel_action found = {.handler = action->sa_sigaction,
                                  .flags = (unsigned)action->sa_flags | KERNEL_RESTORER,
                                  .restorer = restorer ? restorer : restore_from_signal};
    memcpy(&found.mask, &action->sa_mask, sizeof found.mask);
    return found;
}

static void to_program(const struct kernel_action *found, struct sigaction *action)
{
    memset(action, 0, sizeof *action);
    action->sa_sigaction = found->handler;
    action->sa_flags = (int)found->flags;
    action->sa_restorer = found->restorer;
    memcpy(&action->sa_mask, &found->mask, sizeof found->mask);
}

static int set_action(const struct allocator *allocator, int number, const struct sigaction *action,
                      struct sigaction *old)
{
    struct kernel_action wanted, before;
    if (action)
        wanted = to_kernel(allocator, action);
    const struct kernel_action *given = action ? &wanted : NULL;
    long result = allocator->fault_action && number == SIGSEGV
                      ? allocator->fault_action(given, &before)
                      : kernel_set_action(number, given, &before);
    if (old && !syscall_failed(result))
        to_program(&before, old);
    return (int)libc_result(result);
}

EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    const struct allocator *allocator = allocator_of(number);
    FIND_NEXT(sigaction);
    return allocator ? set_action(allocator, number, action, old) : next(number, action, old);
}

EXPORT __attribute__((alias("sigaction"), nothrow, leaf)) __typeof__(sigaction) __sigaction;

/* Signals whose handlers, when set by signal(), end a call that they interrupt: siginterrupt has
 * said so. libc keeps its own such set for the signals that it is left. */
static _Atomic uint64_t interrupting;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
EXPORT int siginterrupt(int number, int interrupts)
{
    const struct allocator *allocator = allocator_of(number);
    struct sigaction action;
    FIND_NEXT(siginterrupt);
    if (!allocator)
        return next(number, interrupts);
    if (set_action(allocator, number, NULL, &action) != 0)
        return -1;
    if (interrupts)
        atomic_fetch_or(&interrupting, signal_bit(number));
    else
        atomic_fetch_and(&interrupting, ~signal_bit(number));
    action.sa_flags = (action.sa_flags & ~SA_RESTART) | (interrupts ? 0 : SA_RESTART);
    return set_action(allocator, number, &action, NULL);
}
#pragma GCC diagnostic pop

/* signal() and its kin, by the flags that each stands for. */
static sighandler_t set_handler(const struct allocator *allocator, int number, sighandler_t handler,
                                int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;
    if (!(flags & SA_NODEFER) && sigaddset(&action.sa_mask, number) != 0)
        return SIG_ERR;
    if (flags & SA_RESTART && atomic_load(&interrupting) & signal_bit(number))
        action.sa_flags &= ~SA_RESTART;
    return set_action(allocator, number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

/* In no header of ours, or only in one for old programs. */
EXPORT sighandler_t bsd_signal(int number, sighandler_t handler);
EXPORT sighandler_t sysv_signal(int number, sighandler_t handler);
EXPORT sighandler_t __sysv_signal(int number, sighandler_t handler);

#define SIGNAL_FUNCTION(name, flags)                                                            \
    EXPORT sighandler_t name(int number, sighandler_t handler)                                  \
    {                                                                                           \
        const struct allocator *allocator = allocator_of(number);                               \
        FIND_NEXT(name);                                                                        \
        return allocator && handler != SIG_ERR ? set_handler(allocator, number, handler, flags) \
                                               : next(number, handler);                         \
    }

SIGNAL_FUNCTION(signal, SA_RESTART)
SIGNAL_FUNCTION(ssignal, SA_RESTART)
SIGNAL_FUNCTION(bsd_signal, SA_RESTART)
SIGNAL_FUNCTION(sysv_signal, SA_RESETHAND | SA_NODEFER)
SIGNAL_FUNCTION(__sysv_signal, SA_RESETHAND | SA_NODEFER)

/* For SIG_HOLD the signal is blocked, and the action stays. Any other action unblocks it. */
static sighandler_t set_disposition(const struct allocator *allocator, int number,
                                    sighandler_t handler)
{
    const struct sigaction action = {.sa_handler = handler};
    const uint64_t bit = signal_bit(number), blocked = signals_block(bit);
    struct sigaction old;
    if (set_action(allocator, number, handler == SIG_HOLD ? NULL : &action, &old) != 0) {
        signals_restore(blocked);
        return SIG_ERR;
    }
    if (handler != SIG_HOLD)
        signals_restore(blocked & ~bit);
    return blocked & bit ? SIG_HOLD : old.sa_handler;
}

EXPORT sighandler_t sigset(int number, sighandler_t handler)
{
    NEXT_FUNCTION(next_record, "sigset");
    sighandler_t (*next)(int, sighandler_t) = next_of(&next_record);
    const struct allocator *allocator = handler == SIG_ERR ? NULL : allocator_of(number);
    return allocator ? set_disposition(allocator, number, handler) : next(number, handler);
}

OWN(sigaction);

EXPORT int sigignore(int number)
{
    const struct sigaction action = {.sa_handler = SIG_IGN};
    return own_sigaction(number, &action, NULL);
}

#endif
