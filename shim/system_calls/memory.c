/* SPDX-License-Identifier: MIT
 *
 * memory.c: what a program does to its memory that no list of mappings tells, and a collector must
 * know: pages that fault when they are touched, or that children do not have; code that it has
 * written; stacks that it gives to threads.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/kernel.h"
#include "shim/system_calls/next_call.h"
#include "shim/route/route.h"
#include "vm/pages.h"
#include "vm/syscall.h"

void tell_pages_may_fault(void)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (allocator->pages_may_fault)
        allocator->pages_may_fault();
}

/* Whether the program has ever excepted memory from its children. */
static _Atomic bool is_any_excepted;

static void tell_excepted(const void *start, size_t bytes)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (!allocator->excepted)
        return;
    is_any_excepted = true;
    allocator->excepted(start, bytes);
}

void tell_not_excepted(const void *start, size_t bytes)
{
    if (is_any_excepted)
        route_resolve()->allocator->not_excepted(start, bytes);
}

static void tell_not_copied(const void *start, size_t bytes)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (allocator->not_copied)
        allocator->not_copied(start, bytes);
}

void tell_moved(const void *start, size_t bytes)
{
    if (is_any_excepted)
        tell_not_copied(start, bytes);
}

EXPORT int madvise(void *start, size_t bytes, int advice)
{
    NEXT_IF_KNOWN(madvise);
    if (advice == ADVICE_GUARD_INSTALL)
        tell_pages_may_fault();
    if (advice == MADV_DOFORK || advice == MADV_WIPEONFORK)
        tell_not_excepted(start, bytes);
    if (advice == MADV_DONTFORK || advice == MADV_WIPEONFORK)
        tell_not_copied(start, bytes);
    int result = next ? next(start, bytes, advice)
                      : (int)libc_result(SYSCALL_3(SYS_madvise, start, bytes, advice));
    if (advice == MADV_DONTFORK && result == 0)
        tell_excepted(start, bytes);
    return result;
}

/* The process may be this one. */
EXPORT ssize_t process_madvise(int process, const struct iovec *parts, size_t count, int advice,
                               unsigned flags)
{
    NEXT_IF_KNOWN(process_madvise);
    if (advice == ADVICE_GUARD_INSTALL)
        tell_pages_may_fault();
    if (advice == MADV_DOFORK || advice == MADV_WIPEONFORK)
        tell_not_excepted(NULL, SIZE_MAX);
    if (next)
        return next(process, parts, count, advice, flags);
    return libc_result(SYSCALL_5(SYS_process_madvise, process, parts, count, advice, flags));
}

/* Pages that become code may have been written before. */
static void tell_of_code(void *start, size_t bytes, int protection)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (protection & PROT_EXEC && allocator->code_is_written)
        allocator->code_is_written(start, bytes);
}

EXPORT int mprotect(void *start, size_t bytes, int protection)
{
    NEXT_IF_KNOWN(mprotect);
    tell_of_code(start, bytes, protection);
    if (next)
        return next(start, bytes, protection);
    return (int)libc_result(SYSCALL_3(SYS_mprotect, start, bytes, protection));
}

OWN(mprotect);

EXPORT int pkey_mprotect(void *start, size_t bytes, int protection, int key)
{
    NEXT_IF_KNOWN(pkey_mprotect);
    tell_of_code(start, bytes, protection);
    if (next)
        return next(start, bytes, protection, key);
    return key == -1
               ? own_mprotect(start, bytes, protection)
               : (int)libc_result(SYSCALL_4(SYS_pkey_mprotect, start, bytes, protection, key));
}

static void tell_stacks_are_given(bool first_too)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (allocator->stacks_are_given)
        allocator->stacks_are_given(first_too);
}

/* As <linux/signal.h> has it: while a handler runs there the kernel has no alternate stack. */
static const unsigned DISARM = 1U << 31;

EXPORT int sigaltstack(const stack_t *stack, stack_t *before)
{
    NEXT_IF_KNOWN(sigaltstack);
    if (stack && (unsigned)stack->ss_flags & DISARM)
        tell_stacks_are_given(true);
    if (next)
        return next(stack, before);
    return (int)libc_result(SYSCALL_2(SYS_sigaltstack, stack, before));
}

/* A static program has libc's own functions: these cannot be found from here. */
#ifdef PIC
EXPORT int pthread_attr_setstack(pthread_attr_t *attributes, void *stack, size_t bytes)
{
    FIND_NEXT(pthread_attr_setstack);
    tell_stacks_are_given(false);
    return next(attributes, stack, bytes);
}

EXPORT int pthread_attr_setstackaddr(pthread_attr_t *attributes, void *end)
{
    NEXT_FUNCTION(next_record, "pthread_attr_setstackaddr");
    int (*next)(pthread_attr_t *, void *) = next_of(&next_record);
    tell_stacks_are_given(false);
    return next(attributes, end);
}

EXPORT int pthread_attr_setguardsize(pthread_attr_t *attributes, size_t bytes)
{
    FIND_NEXT(pthread_attr_setguardsize);
    if (bytes == 0)
        tell_stacks_are_given(false);
    return next(attributes, bytes);
}
#endif
