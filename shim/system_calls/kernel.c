/* SPDX-License-Identifier: MIT
 *
 * kernel.c: system calls that a collector must hear of: those that hide pointers, and sandboxes.
 *
 * The only pointer to a block may be in the kernel: in the data of an epoll event, in the value of
 * a timer or of a queued signal, in a pipe from one thread to another (messages.c, requests.c).
 * These functions pin the block that they are given a pointer to: it stays until it is freed. They
 * do so before the call: after it another thread may have received the message, and unmapped it.
 * What a call is given need not be memory at all, so it is read by the kernel. The call goes to the
 * next library's function: one that is preloaded behind us may serve descriptors of its own (VPP's
 * sockets). Before that is known, and in a static program, the system call is made here.
 *
 * A program that gives up privileges for good is about to enter a sandbox. The sandbox may kill it
 * for any system call that it does not expect, so the collector is told beforehand. It is also told
 * when the process is about to hide from debuggers, since the kernel then hides its /proc from the
 * collector too.
 *
 * With an allocator that is no collector, nothing of this has an effect.
 */
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <time.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/kernel.h"
#include "shim/system_calls/next_call.h"
#include "shim/route/route.h"
#include "vm/fork_chain.h"
#include "vm/own_memory.h"
#include "vm/pages.h"
#include "vm/syscall.h"

/* Without collections nothing is pinned, and nothing is asked of the kernel: the process may be in
 * a sandbox. */
static const struct allocator *allocator_to_pin_in(void)
{
    const struct allocator *allocator = route_resolve()->allocator;
    return allocator->pin && allocator->needs_pins() ? allocator : NULL;
}

void pin_address(const void *word)
{
    const struct allocator *allocator = allocator_to_pin_in();
    if (allocator)
        allocator->pin(word);
}

/* Few words have two bytes of zero at their top, as addresses do. */
static bool may_be_address(uint64_t word)
{
    return word >> 47 == 0 && word >> 16 != 0;
}

/* Whether all of it is memory for sure: on the caller's stack, or in a block. A handler that
 * interrupted the heap cannot ask for a block. */
static bool is_known(const struct allocator *allocator, const char *start, size_t bytes)
{
    enum { FRAMES_BYTES = 64 << 10 };
    const char *frame = __builtin_frame_address(0);
    return (start > frame && start + bytes < frame + FRAMES_BYTES) ||
           (allocator->owns(start) && !fork_chain_is_interrupted() &&
            allocator->usable_size(start) >= bytes);
}

size_t read_program(void *copy, const void *start, size_t bytes)
{
    const struct allocator *allocator = allocator_to_pin_in();
    if (!allocator)
        return 0;
    struct iovec to = {copy, bytes}, from = {(void *)start, bytes};
    long process = SYSCALL_0(SYS_getpid);
    long done = SYSCALL_6(SYS_process_vm_readv, process, &to, 1, &from, 1, 0);
    if (!syscall_failed(done))
        return (size_t)done;
    if (done == -EFAULT || !is_known(allocator, start, bytes))
        return 0;
    memcpy(copy, start, bytes);
    return bytes;
}

void pin_part(struct message_parts *message, const void *part, size_t bytes)
{
    const struct allocator *allocator = allocator_to_pin_in();
    uint64_t word;
    if (!allocator || bytes > LONGEST_MESSAGE) {
        message->kept = 0;
        return;
    }
    bytes = message->kept + read_program(message->bytes + message->kept, part, bytes);
    for (size_t at = 0; at + sizeof word <= bytes; at++) {
        memcpy(&word, message->bytes + at, sizeof word);
        if (may_be_address(word) && allocator->owns((const void *)word))
            allocator->pin((const void *)word);
    }
    message->kept = bytes < PART_OVERLAP ? bytes : PART_OVERLAP;
    memmove(message->bytes, message->bytes + bytes - message->kept, message->kept);
}

void pin_message(const void *message, size_t bytes)
{
    struct message_parts alone;
    alone.kept = 0;
    if (bytes >= sizeof(uint64_t) && bytes <= LONGEST_MESSAGE)
        pin_part(&alone, message, bytes);
}

void pin_parts(const struct iovec *parts, size_t count)
{
    struct iovec some[16];
    struct message_parts message = {.kept = 0};
    if (!allocator_to_pin_in() || count > MOST_PARTS)
        return;
    for (size_t found; count > 0; count -= found, parts += found) {
        size_t wanted = count < 16 ? count : 16;
        found = read_program(some, parts, wanted * sizeof *some) / sizeof *some;
        for (size_t i = 0; i < found; i++)
            pin_part(&message, some[i].iov_base, some[i].iov_len);
        if (found < wanted)
            return;
    }
}

void pin_header(const struct msghdr *header)
{
    struct msghdr copy;
    if (read_program(&copy, header, sizeof copy) == sizeof copy)
        pin_parts(copy.msg_iov, copy.msg_iovlen);
}

EXPORT int epoll_ctl(int descriptor, int operation, int target, struct epoll_event *event)
{
    struct epoll_event copy;
    NEXT_IF_KNOWN(epoll_ctl);
    if (operation != EPOLL_CTL_DEL && read_program(&copy, event, sizeof copy) == sizeof copy)
        pin_address(copy.data.ptr);
    if (next)
        return next(descriptor, operation, target, event);
    return (int)libc_result(SYSCALL_4(SYS_epoll_ctl, descriptor, operation, target, event));
}

EXPORT int sigqueue(pid_t process, int number, const union sigval value)
{
    NEXT_IF_KNOWN(sigqueue);
    pin_address(value.sival_ptr);
    if (next)
        return next(process, number, value);
    siginfo_t info = {0};
    info.si_signo = number;
    info.si_code = SI_QUEUE;
    info.si_pid = (pid_t)SYSCALL_0(SYS_getpid);
    info.si_uid = (uid_t)SYSCALL_0(SYS_getuid);
    info.si_value = value;
    return (int)libc_result(SYSCALL_3(SYS_rt_sigqueueinfo, process, number, &info));
}

EXPORT int pidfd_send_signal(int process, int number, siginfo_t *info, unsigned flags)
{
    siginfo_t copy;
    NEXT_IF_KNOWN(pidfd_send_signal);
    if (info && read_program(&copy, info, sizeof copy) == sizeof copy)
        pin_address(copy.si_value.sival_ptr);
    if (next)
        return next(process, number, info, flags);
    return (int)libc_result(SYSCALL_4(SYS_pidfd_send_signal, process, number, info, flags));
}

/* A static program has libc's own functions: these cannot be found from here. */
#ifdef PIC
EXPORT int pthread_sigqueue(pthread_t thread, int number, const union sigval value)
{
    FIND_NEXT(pthread_sigqueue);
    pin_address(value.sival_ptr);
    return next(thread, number, value);
}

EXPORT int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
    FIND_NEXT(timer_create);
    if (event)
        pin_address(event->sigev_value.sival_ptr);
    return next(clock, event, timer);
}
#endif

/* A vfork child has its parent's memory, but enters its sandbox alone. */
static void enter_sandbox(const struct allocator *allocator)
{
    if (pages_are_in_sandbox() || memory_is_lent())
        return;
    pages_enter_sandbox();
    if (allocator->enter_sandbox)
        allocator->enter_sandbox();
}

/* Whether the call can succeed. Programs ask by one that cannot what the kernel offers. */
static bool may_enter_sandbox(int option, const unsigned long arguments[4])
{
    if (option == PR_SET_NO_NEW_PRIVS)
        return arguments[0] == 1 && !arguments[1] && !arguments[2] && !arguments[3];
    return option == PR_SET_SECCOMP && (arguments[0] == SECCOMP_MODE_STRICT ||
                                        (arguments[0] == SECCOMP_MODE_FILTER && arguments[1]));
}

EXPORT int prctl(int option, ...)
{
    va_list list;
    va_start(list, option);
    unsigned long arguments[4];
    for (int i = 0; i < 4; i++)
        arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    NEXT_IF_KNOWN(prctl);
    const struct allocator *allocator = route_resolve()->allocator;
    if (may_enter_sandbox(option, arguments))
        enter_sandbox(allocator);
    if (option == PR_SET_DUMPABLE && arguments[0] == 0 && allocator->before_hiding)
        allocator->before_hiding();
    if (next)
        return next(option, arguments[0], arguments[1], arguments[2], arguments[3]);
    return (int)libc_result(
        SYSCALL_5(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]));
}
