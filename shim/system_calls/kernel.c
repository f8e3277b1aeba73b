/* SPDX-License-Identifier: MIT
 *
 * kernel.c: system calls that a collector must hear of: those that hide pointers, and sandboxes.
 *
 * The only pointer to a block may be in the kernel: in the data of an epoll event, in the value of
 * a timer or of a queued signal, in a pipe from one thread to another. These functions pin the
 * block that they are given a pointer to: it stays until it is freed. Where glibc's function is a
 * plain system call, that is made here, and no other library is asked for its function.
 *
 * A program that gives up privileges for good is about to enter a sandbox. The sandbox may kill it
 * for any system call that it does not expect, so the collector is told beforehand. It is also told
 * when the process is about to hide from debuggers, since the kernel then hides its /proc from the
 * collector too.
 *
 * With an allocator that is no collector, nothing of this has an effect.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/kernel.h"
#include "shim/route/route.h"
#include "vm/syscall.h"

void pin(const void *word)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (allocator->pin)
        allocator->pin(word);
}

/* Few words have two bytes of zero at their top, as addresses do. */
static bool may_be_address(uint64_t word)
{
    return word >> 47 == 0 && word >> 16 != 0;
}

void pin_message(const void *message, ssize_t bytes)
{
    enum { LONGEST = 256 };
    const struct allocator *allocator = route_resolve()->allocator;
    if (!allocator->pin || bytes > LONGEST)
        return;
    for (ssize_t at = 0; at + (ssize_t)sizeof(uint64_t) <= bytes; at++) {
        uint64_t word;
        memcpy(&word, (const char *)message + at, sizeof word);
        if (may_be_address(word) && allocator->owns((const void *)word))
            allocator->pin((const void *)word);
    }
}

void pin_parts(const struct iovec *parts, size_t count, ssize_t bytes)
{
    for (size_t i = 0; i < count && bytes > 0; i++) {
        ssize_t part = (ssize_t)parts[i].iov_len < bytes ? (ssize_t)parts[i].iov_len : bytes;
        pin_message(parts[i].iov_base, part);
        bytes -= part;
    }
}

EXPORT int epoll_ctl(int descriptor, int operation, int target, struct epoll_event *event)
{
    int result = (int)libc_result(SYSCALL_4(SYS_epoll_ctl, descriptor, operation, target, event));
    if (result == 0 && operation != EPOLL_CTL_DEL)
        pin(event->data.ptr);
    return result;
}

EXPORT int sigqueue(pid_t process, int number, const union sigval value)
{
    siginfo_t info = {0};
    info.si_signo = number;
    info.si_code = SI_QUEUE;
    info.si_pid = (pid_t)SYSCALL_0(SYS_getpid);
    info.si_uid = (uid_t)SYSCALL_0(SYS_getuid);
    info.si_value = value;
    pin(value.sival_ptr);
    return (int)libc_result(SYSCALL_3(SYS_rt_sigqueueinfo, process, number, &info));
}

EXPORT int pthread_sigqueue(pthread_t thread, int number, const union sigval value)
{
    int (*next)(pthread_t, int, union sigval) = dlsym(RTLD_NEXT, "pthread_sigqueue");
    pin(value.sival_ptr);
    return next ? next(thread, number, value) : ENOSYS;
}

EXPORT int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
    int (*next)(clockid_t, struct sigevent *, timer_t *) = dlsym(RTLD_NEXT, "timer_create");
    if (event)
        pin(event->sigev_value.sival_ptr);
    if (next)
        return next(clock, event, timer);
    errno = ENOSYS;
    return -1;
}

EXPORT int prctl(int option, ...)
{
    va_list list;
    va_start(list, option);
    unsigned long arguments[4];
    for (int i = 0; i < 4; i++)
        arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    const struct allocator *allocator = route_resolve()->allocator;
    if ((option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) && allocator->enter_sandbox)
        allocator->enter_sandbox();
    if (option == PR_SET_DUMPABLE && arguments[0] == 0 && allocator->before_hiding)
        allocator->before_hiding();
    return (int)libc_result(
        SYSCALL_5(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]));
}
