/* SPDX-License-Identifier: MIT
 *
 * faults.c: see faults.h.
 */
#include "alloc/checked/faults.h"

#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

#include "alloc/allocator.h"
#include "alloc/checked/report.h"
#include "vm/own_memory.h"
#include "vm/signals.h"
#include "vm/syscall.h"

/* Those that the kernel knows; 0x800 is SA_EXPOSE_TAGBITS. */
static const unsigned long KERNEL_FLAGS = SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_ONSTACK |
                                          SA_RESTART | SA_NODEFER | (unsigned)SA_RESETHAND | 0x800 |
                                          KERNEL_RESTORER;

/* Bits of a page fault's error code (Intel SDM volume 3, 4.7). */
enum { FAULT_IS_WRITE = 1 << 1, FAULT_IS_FETCH = 1 << 4 };

/* The program's action is actions[changes / 2 % 2]. `changes` is odd while a writer is at the
 * other one. */
static struct kernel_action actions[2];
static _Atomic uint32_t changes;
static fault_reporter *reporter;

static void on_fault(int number, siginfo_t *info, void *context);

static bool is_handler(const struct kernel_action *action)
{
    return (uintptr_t)action->handler > (uintptr_t)SIG_IGN;
}

/* Installs our handler, with the mask and flags of the program's. But SA_RESETHAND, that a handler
 * serves once, is left to on_fault. */
static long install(const struct kernel_action *action)
{
    struct kernel_action ours = {on_fault, SA_SIGINFO | SA_ONSTACK | KERNEL_RESTORER,
                                 restore_from_signal, 0};
    if (is_handler(action)) {
        ours.flags = (action->flags & ~(unsigned long)SA_RESETHAND) | SA_SIGINFO | KERNEL_RESTORER;
        ours.mask = action->mask;
    }
    return kernel_set_action(SIGSEGV, &ours, NULL);
}

void faults_init(fault_reporter *report)
{
    reporter = report;
    kernel_set_action(SIGSEGV, NULL, &actions[0]);
    install(&actions[0]);
}

static struct kernel_action *action_at(uint32_t count)
{
    return &actions[count / 2 % 2];
}

/* Reads again where a writer has come to this action meanwhile: that is the change after the next.
 */
static struct kernel_action programs_action(void)
{
    for (;;) {
        uint32_t before = atomic_load_explicit(&changes, memory_order_acquire) & ~1U;
        struct kernel_action action = *action_at(before);
        atomic_thread_fence(memory_order_acquire);
        if ((atomic_load_explicit(&changes, memory_order_relaxed) & ~1U) == before)
            return action;
    }
}

/* Returns the count of changes, for end_change(). */
static uint32_t begin_change(void)
{
    for (;;) {
        uint32_t even = atomic_load_explicit(&changes, memory_order_relaxed) & ~1U;
        if (atomic_compare_exchange_weak(&changes, &even, even + 1))
            return even;
        __builtin_ia32_pause();
    }
}

static void end_change(uint32_t before)
{
    atomic_store(&changes, before + 2);
}

/* A change that another thread had begun is given up. The kernel may have it already. */
void faults_fork_child(void)
{
    uint32_t count = atomic_load(&changes);
    if (count % 2 == 1) {
        atomic_store(&changes, count - 1);
        install(action_at(count));
    }
}

/* A child that shares our memory has actions of its own in the kernel. */
static long action_of_child(const struct kernel_action *action, struct kernel_action *old)
{
    struct kernel_action in_kernel;
    long result = kernel_set_action(SIGSEGV, action, &in_kernel);
    if (old)
        *old = in_kernel.handler == on_fault ? programs_action() : in_kernel;
    return result;
}

/* Returns the action before. */
static struct kernel_action change_action(const struct kernel_action *wanted)
{
    uint64_t mask = signals_block(ALL_SIGNALS);
    uint32_t count = begin_change();
    struct kernel_action before = *action_at(count), *after = action_at(count + 2);
    *after = *wanted;
    after->flags &= KERNEL_FLAGS; /* as the kernel does, and with the mask */
    after->mask &= ~(signal_bit(SIGKILL) | signal_bit(SIGSTOP));
    install(after);
    end_change(count);
    signals_restore(mask);
    return before;
}

long faults_action(const struct kernel_action *action, struct kernel_action *old)
{
    if (!memory_is_own())
        return action_of_child(action, old);
    struct kernel_action before = action ? change_action(action) : programs_action();
    if (old)
        *old = before; /* `action` may be `old` */
    return 0;
}

/* In the handler. */

static const char *access_of(const mcontext_t *machine)
{
    greg_t error = machine->gregs[REG_ERR];
    return error & FAULT_IS_FETCH ? "execute" : error & FAULT_IS_WRITE ? "write" : "read";
}

/* The callers are told last: the walk up the stack may fault itself, and the kernel ends the
 * process for that. */
static void report(const void *address, const mcontext_t *machine)
{
    uintptr_t behind = (uintptr_t)machine->gregs[REG_RIP] + 1;
    const char *access = access_of(machine);
    struct call_stack stack;
    if (!reporter(access, address, (const void *)behind) || !allocator_call_stack)
        return;
    stack.frames =
        allocator_call_stack(behind, (uintptr_t)machine->gregs[REG_RSP],
                             (uintptr_t)machine->gregs[REG_RBP], stack.sites, CALL_STACK_FRAMES);
    report_callers(access, address, &stack);
}

/* For a program without a handler. A fault ends the process, even if the program ignores the
 * signal: the instruction runs again with the signal blocked, and for that the kernel ends it
 * (force_sig). This takes no system call, which a sandbox may refuse. A signal that was sent is
 * dropped if the program ignores it. Otherwise it is sent again, now to the default action. */
static void do_default(int number, siginfo_t *info, ucontext_t *context, bool is_ignored)
{
    static const struct kernel_action by_default;
    uint64_t blocked;
    if (info->si_code > 0) {
        memcpy(&blocked, &context->uc_sigmask, sizeof blocked);
        blocked |= signal_bit(number);
        memcpy(&context->uc_sigmask, &blocked, sizeof blocked);
    } else if (!is_ignored) {
        kernel_set_action(number, &by_default, NULL);
        SYSCALL_4(SYS_rt_tgsigqueueinfo, SYSCALL_0(SYS_getpid), SYSCALL_0(SYS_gettid), number,
                  info);
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    struct kernel_action action = programs_action();
    if (info->si_code > 0)
        report(info->si_addr, &((const ucontext_t *)context)->uc_mcontext);
    if (!is_handler(&action)) {
        do_default(number, info, context, (uintptr_t)action.handler == (uintptr_t)SIG_IGN);
        return;
    }
    if (action.flags & SA_RESETHAND) {
        struct kernel_action by_default = action; /* its flags and mask stay */
        by_default.handler = NULL;
        faults_action(&by_default, NULL);
    }
    action.handler(number, info, context);
}
