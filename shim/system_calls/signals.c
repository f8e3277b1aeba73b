/* SPDX-License-Identifier: MIT
 *
 * signals.c: the program's handler of SIGSEGV, for an allocator that has one of its own in front of
 * it (struct allocator, fault_action). All else goes to libc.
 *
 * What calls the kernel itself, as Go does, takes the allocator's handler away: it behaves as
 * without one. A static program has libc's own functions, with the same effect.
 */
#include <signal.h>
#include <string.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/next_call.h"
#include "shim/route/route.h"
#include "vm/kernel_action.h"

#ifdef PIC

static const struct allocator *allocator_of_faults(int number)
{
    const struct allocator *allocator = number == SIGSEGV ? route_resolve()->allocator : NULL;
    return allocator && allocator->fault_action ? allocator : NULL;
}

static struct kernel_action to_kernel(const struct sigaction *action)
{
    struct kernel_action found = {.handler = action->sa_sigaction,
                                  .flags = (unsigned)action->sa_flags | KERNEL_RESTORER,
                                  .restorer = restore_from_signal};
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

static int set_action(const struct allocator *allocator, const struct sigaction *action,
                      struct sigaction *old)
{
    struct kernel_action wanted, before;
    if (action)
        wanted = to_kernel(action);
    long result = allocator->fault_action(action ? &wanted : NULL, &before);
    if (old && !syscall_failed(result))
        to_program(&before, old);
    return (int)libc_result(result);
}

EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    const struct allocator *allocator = allocator_of_faults(number);
    FIND_NEXT(sigaction);
    return allocator ? set_action(allocator, action, old) : next(number, action, old);
}

/* signal() and its kin, by the flags that each stands for. */
static sighandler_t set_handler(const struct allocator *allocator, sighandler_t handler, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;
    if (!(flags & SA_NODEFER))
        sigaddset(&action.sa_mask, SIGSEGV);
    return set_action(allocator, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

/* In no header of ours, or only in one for old programs. */
EXPORT sighandler_t bsd_signal(int number, sighandler_t handler);
EXPORT sighandler_t sysv_signal(int number, sighandler_t handler);
EXPORT sighandler_t __sysv_signal(int number, sighandler_t handler);

#define SIGNAL_FUNCTION(name, flags)                                                       \
    EXPORT sighandler_t name(int number, sighandler_t handler)                             \
    {                                                                                      \
        const struct allocator *allocator = allocator_of_faults(number);                   \
        FIND_NEXT(name);                                                                   \
        return allocator ? set_handler(allocator, handler, flags) : next(number, handler); \
    }

SIGNAL_FUNCTION(signal, SA_RESTART)
SIGNAL_FUNCTION(ssignal, SA_RESTART)
SIGNAL_FUNCTION(bsd_signal, SA_RESTART)
SIGNAL_FUNCTION(sysv_signal, SA_RESETHAND | SA_NODEFER)
SIGNAL_FUNCTION(__sysv_signal, SA_RESETHAND | SA_NODEFER)

#endif
