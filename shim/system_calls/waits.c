/* SPDX-License-Identifier: MIT
 *
 * waits.c: system calls that wait, which a collection must not end.
 *
 * A collection stops threads by a signal. The kernel ends some waits with EINTR then, although the
 * program has no handler for the signal. The collector restarts most of them where it stopped the
 * thread (gc/world/interrupted_waits.c). It cannot where the timeout is a number of milliseconds:
 * it does not know how much of it has passed. Nor can it with glibc from 2.41 on, where all
 * functions share one system call instruction: it does not know which call it was. The functions
 * here do, and restart the wait with what remains. The allocator says whether a collection alone
 * has ended the wait (ended_waits); EINTR for a signal of the program is passed on.
 *
 * With an allocator that is no collector, each function is libc's.
 */
#include <aio.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/ended_waits.h"
#include "shim/system_calls/next_call.h"
#include "vm/clock.h"
#include "vm/syscall.h"

EXPORT int __poll_chk(struct pollfd *descriptors, nfds_t count, int timeout_ms, size_t bytes);
EXPORT int __ppoll_chk(struct pollfd *descriptors, nfds_t count, const struct timespec *span,
                       const sigset_t *mask, size_t bytes);
EXPORT int thrd_sleep(const struct timespec *time, struct timespec *left);
void __chk_fail(void) __attribute__((noreturn));

enum { KERNEL_SIGSET_BYTES = 8 };

/* Whether to restart the wait, then with a timeout of *left. It asks last who has ended the wait:
 * a handler that runs between this question and the next call does not end the wait. */
static bool must_restart(struct wait *wait, int result, int timeout_ms, int *left)
{
    if (!may_be_restarted(wait, result))
        return false;
    if (timeout_ms > 0)
        *left = remaining_ms(wait, timeout_ms * INT64_C(1000000));
    return was_interrupted(wait);
}

/* The body of such a function: restarts the wait until anything but a collection has ended it. In
 * the arguments `left` is what remains of the timeout. */
#define WAIT_MILLISECONDS(name, timeout_ms, system_call, ...)                               \
    do {                                                                                    \
        FIND_NEXT(name);                                                                    \
        struct wait wait = begin_wait((timeout_ms) != 0, (timeout_ms) > 0);                 \
        int result, left = timeout_ms;                                                      \
        do                                                                                  \
            result = next ? next(__VA_ARGS__) : (int)libc_result(CANCELLABLE(system_call)); \
        while (must_restart(&wait, result, timeout_ms, &left));                             \
        return result;                                                                      \
    } while (0)

EXPORT int poll(struct pollfd *descriptors, nfds_t count, int timeout_ms)
{
    WAIT_MILLISECONDS(poll, timeout_ms, SYSCALL_3(SYS_poll, descriptors, count, left), descriptors,
                      count, left);
}

ALSO_CALLED(__poll, poll);

__typeof__(poll) own_poll __attribute__((alias("poll"), copy(poll)));

/* What poll is in a program that was compiled with _FORTIFY_SOURCE. */
EXPORT int __poll_chk(struct pollfd *descriptors, nfds_t count, int timeout_ms, size_t bytes)
{
    if (bytes / sizeof *descriptors < count)
        __chk_fail();
    return own_poll(descriptors, count, timeout_ms);
}

EXPORT int epoll_wait(int descriptor, struct epoll_event *events, int most, int timeout_ms)
{
    WAIT_MILLISECONDS(epoll_wait, timeout_ms,
                      SYSCALL_4(SYS_epoll_wait, descriptor, events, most, left), descriptor, events,
                      most, left);
}

/* Waits with a signal mask of their own. When a stop returns, the kernel sets the thread's own
 * mask. Only then does the call begin again, with its mask. In between, signals that only the
 * wait's mask blocks could come. So the thread blocks them itself. Returns those that it did not
 * block already. */
static uint64_t block_masked(const sigset_t *mask)
{
    uint64_t before = 0, masked = 0;
    if (!mask || !collections_end_waits() ||
        syscall_failed(
            SYSCALL_4(SYS_rt_sigprocmask, SIG_BLOCK, mask, &before, KERNEL_SIGSET_BYTES)))
        return 0;
    memcpy(&masked, mask, sizeof masked);
    return masked & ~before;
}

/* Handlers may run in this call. Without us they run at the end of the wait, before libc sets
 * errno. So errno is kept. */
static void unblock(uint64_t signals)
{
    int error = errno;
    if (signals)
        SYSCALL_4(SYS_rt_sigprocmask, SIG_UNBLOCK, &signals, NULL, sizeof signals);
    errno = error;
}

static int epoll_wait_masked(int descriptor, struct epoll_event *events, int most, int timeout_ms,
                             const sigset_t *mask)
{
    WAIT_MILLISECONDS(
        epoll_pwait, timeout_ms,
        SYSCALL_6(SYS_epoll_pwait, descriptor, events, most, left, mask, KERNEL_SIGSET_BYTES),
        descriptor, events, most, left, mask);
}

EXPORT int epoll_pwait(int descriptor, struct epoll_event *events, int most, int timeout_ms,
                       const sigset_t *mask)
{
    uint64_t blocked = block_masked(mask);
    int result = epoll_wait_masked(descriptor, events, most, timeout_ms, mask);
    unblock(blocked);
    return result;
}

/* Waits whose timeout is a span of time (struct timespec) that the kernel does not write back. They
 * are restarted with what remains of it, as those above are. */

static bool must_restart_span(struct wait *wait, int result, const struct timespec *span,
                              struct timespec *left)
{
    if (!may_be_restarted(wait, result))
        return false;
    if (span)
        *left = remaining_span(wait, *span);
    return was_interrupted(wait);
}

#define WAIT_SPAN(name, span, system_call, ...)                                             \
    do {                                                                                    \
        FIND_NEXT(name);                                                                    \
        struct wait wait = begin_wait(true, (span) != NULL);                                \
        struct timespec rest;                                                               \
        const struct timespec *left = span;                                                 \
        int result;                                                                         \
        for (;;) {                                                                          \
            result = next ? next(__VA_ARGS__) : (int)libc_result(CANCELLABLE(system_call)); \
            if (!must_restart_span(&wait, result, span, &rest))                             \
                return result;                                                              \
            left = left ? &rest : NULL;                                                     \
        }                                                                                   \
    } while (0)

static int epoll_wait_span(int descriptor, struct epoll_event *events, int most,
                           const struct timespec *span, const sigset_t *mask)
{
    WAIT_SPAN(
        epoll_pwait2, span,
        SYSCALL_6(SYS_epoll_pwait2, descriptor, events, most, left, mask, KERNEL_SIGSET_BYTES),
        descriptor, events, most, left, mask);
}

EXPORT int epoll_pwait2(int descriptor, struct epoll_event *events, int most,
                        const struct timespec *span, const sigset_t *mask)
{
    uint64_t blocked = block_masked(mask);
    int result = epoll_wait_span(descriptor, events, most, span, mask);
    unblock(blocked);
    return result;
}

EXPORT int semtimedop(int set, struct sembuf *operations, size_t count, const struct timespec *span)
{
    WAIT_SPAN(semtimedop, span, SYSCALL_4(SYS_semtimedop, set, operations, count, left), set,
              operations, count, left);
}

EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *span)
{
    WAIT_SPAN(sigtimedwait, span,
              SYSCALL_4(SYS_rt_sigtimedwait, set, info, left, KERNEL_SIGSET_BYTES), set, info,
              left);
}

/* The collector restarts a sleep for which the kernel has stored the time that is left. So a sleep
 * always gets a place for that time here. The program's own is written only when a handler ends the
 * sleep. */

EXPORT int nanosleep(const struct timespec *time, struct timespec *left)
{
    FIND_NEXT(nanosleep);
    struct wait wait = begin_wait(true, true);
    struct timespec rest = {0}, again;
    const struct timespec *asked = time;
    int result;
    for (;;) {
        result = next ? next(asked, &rest)
                      : (int)libc_result(CANCELLABLE(SYSCALL_2(SYS_nanosleep, asked, &rest)));
        if (!must_restart_span(&wait, result, time, &again))
            break;
        asked = &again;
    }
    if (left && result < 0 && errno == EINTR)
        *left = rest;
    return result;
}

ALSO_CALLED(__nanosleep, nanosleep);

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left)
{
    FIND_NEXT(clock_nanosleep);
    struct wait wait = begin_wait(true, true);
    bool is_span = !(flags & TIMER_ABSTIME);
    struct timespec rest = {0}, again;
    const struct timespec *asked = time;
    int error;
    for (;;) {
        error = next
                    ? next(clock, flags, asked, &rest)
                    : (int)-CANCELLABLE(SYSCALL_4(SYS_clock_nanosleep, clock, flags, asked, &rest));
        if (error != EINTR || !wait.ended_waits)
            break;
        if (is_span)
            again = runs_while_stopped(clock) ? remaining_span(&wait, *time) : rest;
        if (!was_interrupted(&wait))
            break;
        asked = is_span ? &again : time;
    }
    if (left && error == EINTR && is_span)
        *left = rest;
    return error;
}

OWN(nanosleep);

EXPORT int usleep(useconds_t microseconds)
{
    struct timespec time = {.tv_sec = microseconds / 1000000,
                            .tv_nsec = (long)(microseconds % 1000000) * 1000};
    return own_nanosleep(&time, NULL);
}

OWN(clock_nanosleep);

EXPORT int thrd_sleep(const struct timespec *time, struct timespec *left)
{
    int error = own_clock_nanosleep(CLOCK_REALTIME, 0, time, left);
    return error == 0 ? 0 : error == EINTR ? -1 : -2;
}

#ifdef PIC /* in a static program these are libc's own */

/* What libc's sleep returns are whole seconds, too coarse to tell how much is left. */
EXPORT unsigned sleep(unsigned seconds)
{
    FIND_NEXT(sleep);
    struct wait wait = begin_wait(true, true);
    unsigned left = next(seconds);
    if (!was_interrupted(&wait))
        return left;
    struct timespec rest = remaining_span(&wait, (struct timespec){.tv_sec = seconds});
    return own_nanosleep(&rest, &rest) == 0 ? 0 : (unsigned)rest.tv_sec;
}

EXPORT int select(int count, fd_set *to_read, fd_set *to_write, fd_set *exceptions,
                  struct timeval *limit)
{
    FIND_NEXT(select);
    struct wait wait = begin_wait(true, limit != NULL);
    struct timespec span = {0};
    int result;
    if (limit && wait.ended_waits)
        span = (struct timespec){limit->tv_sec, limit->tv_usec * 1000};
    while (may_be_restarted(&wait, result = next(count, to_read, to_write, exceptions, limit))) {
        struct timespec left = remaining_span(&wait, span);
        if (limit)
            *limit = (struct timeval){left.tv_sec, left.tv_nsec / 1000};
        if (!was_interrupted(&wait))
            break;
    }
    return result;
}

ALSO_CALLED(__select, select);

static int poll_span(struct pollfd *descriptors, nfds_t count, const struct timespec *span,
                     const sigset_t *mask)
{
    WAIT_SPAN(ppoll, span, -ENOSYS, descriptors, count, left, mask);
}

EXPORT int ppoll(struct pollfd *descriptors, nfds_t count, const struct timespec *span,
                 const sigset_t *mask)
{
    uint64_t blocked = block_masked(mask);
    int result = poll_span(descriptors, count, span, mask);
    unblock(blocked);
    return result;
}

OWN(ppoll);

EXPORT int __ppoll_chk(struct pollfd *descriptors, nfds_t count, const struct timespec *span,
                       const sigset_t *mask, size_t bytes)
{
    if (bytes / sizeof *descriptors < count)
        __chk_fail();
    return own_ppoll(descriptors, count, span, mask);
}

static int select_span(int count, fd_set *to_read, fd_set *to_write, fd_set *exceptions,
                       const struct timespec *span, const sigset_t *mask)
{
    WAIT_SPAN(pselect, span, -ENOSYS, count, to_read, to_write, exceptions, left, mask);
}

EXPORT int pselect(int count, fd_set *to_read, fd_set *to_write, fd_set *exceptions,
                   const struct timespec *span, const sigset_t *mask)
{
    uint64_t blocked = block_masked(mask);
    int result = select_span(count, to_read, to_write, exceptions, span, mask);
    unblock(blocked);
    return result;
}

EXPORT int aio_suspend(const struct aiocb *const requests[], int count, const struct timespec *span)
{
    WAIT_SPAN(aio_suspend, span, -ENOSYS, requests, count, left);
}

OWN(aio_suspend);

EXPORT int aio_suspend64(const struct aiocb64 *const requests[], int count,
                         const struct timespec *span)
{
    return own_aio_suspend((const struct aiocb *const *)requests, count, span);
}

/* Its error is what it returns, not errno. */
static int suspend_for_names(const struct gaicb *const requests[], int count,
                             const struct timespec *span)
{
    FIND_NEXT(gai_suspend);
    int result = next(requests, count, span);
    if (result == EAI_INTR)
        errno = EINTR;
    return result;
}

EXPORT int gai_suspend(const struct gaicb *const requests[], int count, const struct timespec *span)
{
    struct wait wait = begin_wait(true, span != NULL);
    struct timespec left;
    int result = suspend_for_names(requests, count, span);
    while (result == EAI_INTR && must_restart_span(&wait, result, span, &left))
        result = suspend_for_names(requests, count, span ? &left : NULL);
    return result;
}

/* The body of a function that has no limit, or a point in time. */
#define WAIT_AS_BEFORE(name, ...)                   \
    do {                                            \
        FIND_NEXT(name);                            \
        struct wait wait = begin_wait(true, false); \
        __typeof__(next(__VA_ARGS__)) result;       \
        do                                          \
            result = next(__VA_ARGS__);             \
        while (must_begin_again(&wait, result));    \
        return result;                              \
    } while (0)

static int suspend(const sigset_t *mask)
{
    WAIT_AS_BEFORE(sigsuspend, mask);
}

EXPORT int sigsuspend(const sigset_t *mask)
{
    uint64_t blocked = block_masked(mask);
    int result = suspend(mask);
    unblock(blocked);
    return result;
}

EXPORT __attribute__((alias("sigsuspend"))) __typeof__(sigsuspend) __sigsuspend;

EXPORT int pause(void)
{
    WAIT_AS_BEFORE(pause);
}

EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    WAIT_AS_BEFORE(sigwaitinfo, set, info);
}

EXPORT int semop(int set, struct sembuf *operations, size_t count)
{
    WAIT_AS_BEFORE(semop, set, operations, count);
}

EXPORT ssize_t msgrcv(int queue, void *message, size_t bytes, long type, int flags)
{
    WAIT_AS_BEFORE(msgrcv, queue, message, bytes, type, flags);
}

EXPORT int tcdrain(int descriptor)
{
    WAIT_AS_BEFORE(tcdrain, descriptor);
}

EXPORT int sem_timedwait(sem_t *semaphore, const struct timespec *time)
{
    WAIT_AS_BEFORE(sem_timedwait, semaphore, time);
}

EXPORT int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *time)
{
    WAIT_AS_BEFORE(sem_clockwait, semaphore, clock, time);
}

#endif
