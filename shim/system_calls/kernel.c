/* SPDX-License-Identifier: MIT
 *
 * kernel.c: pointers that go where no collector can see them, and sandboxes.
 *
 * What a program gives the kernel to keep (the data of an epoll event, the value of a timer or of
 * a queued signal, a pointer in a pipe from one thread to another) may be its only pointer to a
 * block. These calls pin what they are given: the block stays until it is freed. Where glibc's own
 * is a plain system call it is made as such here, so no other library need be asked for its own.
 *
 * A program that gives up privileges for good is about to enter a sandbox, which may kill it for
 * any system call that it does not expect, the collector's among them: it is told beforehand. So it
 * is when the process is about to hide from debuggers, and from the collector with them.
 *
 * Under allocators without a collector all of this changes nothing.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <mqueue.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/kernel.h"
#include "shim/route/route.h"
#include "vm/syscall.h"

static void pin(const void *address)
{
    const struct allocator *allocator = route_settle()->allocator;
    if (allocator->pin)
        allocator->pin(address);
}

void pin_message(const void *message, ssize_t bytes)
{
    enum { LONGEST = 256 };
    const struct allocator *allocator = route_settle()->allocator;
    if (!allocator->pin || bytes <= 0 || bytes > LONGEST || bytes % sizeof(void *) != 0)
        return;
    for (size_t at = 0; at < (size_t)bytes; at += sizeof(void *)) {
        const void *word;
        memcpy(&word, (const char *)message + at, sizeof word);
        if (allocator->owns(word))
            allocator->pin(word);
    }
}

EXPORT int epoll_ctl(int descriptor, int operation, int target, struct epoll_event *event)
{
    if (event && operation != EPOLL_CTL_DEL)
        pin(event->data.ptr);
    return (int)libc_result(SYSCALL_4(SYS_epoll_ctl, descriptor, operation, target, event));
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

EXPORT int mq_notify(mqd_t queue, const struct sigevent *event)
{
    int (*next)(mqd_t, const struct sigevent *) = dlsym(RTLD_NEXT, "mq_notify");
    if (event)
        pin(event->sigev_value.sival_ptr);
    if (next)
        return next(queue, event);
    errno = ENOSYS;
    return -1;
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
    const struct allocator *allocator = route_settle()->allocator;
    if ((option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) && allocator->enter_sandbox)
        allocator->enter_sandbox();
    if (option == PR_SET_DUMPABLE && arguments[0] == 0 && allocator->before_hiding)
        allocator->before_hiding();
    return (int)libc_result(
        SYSCALL_5(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]));
}
