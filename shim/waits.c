/* SPDX-License-Identifier: MIT
 *
 * waits.c: waits with a limit that a collection must not end.
 *
 * A collection stops threads by a signal, and the kernel ends some waits with EINTR for it although
 * the program has no handler. Most are begun again where they were stopped (gc/stop.c). Not those
 * whose limit is a number of milliseconds: by then nobody knows how much of it has passed. These
 * calls do. The allocator tells whether it was a collection that ended the wait and nothing else;
 * EINTR of a signal of the program's is passed on.
 *
 * Under allocators without a collector each is libc's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "shim/interpose.h"
#include "shim/route.h"
#include "vm/clock.h"
#include "vm/syscall.h"

EXPORT int __poll_chk(struct pollfd *descriptors, nfds_t count, int limit_ms, size_t bytes);
void __chk_fail(void) __attribute__((noreturn));

/* libc's own function, or that of a library between; NULL in a static program. */
static void *next_of(void *_Atomic *kept, const char *name)
{
    void *function = atomic_load_explicit(kept, memory_order_relaxed);
    if (!function) {
        function = dlsym(RTLD_NEXT, name);
        atomic_store_explicit(kept, function, memory_order_relaxed);
    }
    return function;
}

static int result_of(long result)
{
    if (!syscall_failed(result))
        return (int)result;
    errno = (int)-result;
    return -1;
}

struct limited_wait {
    uint32_t (*ended_waits)(void); /* NULL: nothing need be looked after */
    uint32_t ended;
    int64_t end_ns;
};

static struct limited_wait begin_wait(int limit_ms)
{
    struct limited_wait wait = {0};
    if (limit_ms > 0)
        wait.ended_waits = route_settle()->allocator->ended_waits;
    if (wait.ended_waits) {
        wait.ended = wait.ended_waits();
        wait.end_ns = (int64_t)monotonic_ns() + (int64_t)limit_ms * 1000000;
    }
    return wait;
}

/* Whether a wait with this result was ended by a collection; then *limit_ms is what is left. */
static bool goes_on(struct limited_wait *wait, int result, int *limit_ms)
{
    if (result >= 0 || errno != EINTR || !wait->ended_waits)
        return false;
    uint32_t ended = wait->ended_waits();
    if (ended == wait->ended)
        return false;
    wait->ended = ended;
    int64_t left_ns = wait->end_ns - (int64_t)monotonic_ns();
    *limit_ms = left_ns > 0 ? (int)((left_ns + 999999) / 1000000) : 0;
    return true;
}

EXPORT int poll(struct pollfd *descriptors, nfds_t count, int limit_ms)
{
    static void *_Atomic kept;
    int (*next)(struct pollfd *, nfds_t, int) = next_of(&kept, "poll");
    struct limited_wait wait = begin_wait(limit_ms);
    int result;
    do
        result = next ? next(descriptors, count, limit_ms)
                      : result_of(SYSCALL_3(SYS_poll, descriptors, count, limit_ms));
    while (goes_on(&wait, result, &limit_ms));
    return result;
}

/* What poll is in a program that was compiled with _FORTIFY_SOURCE. */
EXPORT int __poll_chk(struct pollfd *descriptors, nfds_t count, int limit_ms, size_t bytes)
{
    if (bytes / sizeof *descriptors < count)
        __chk_fail();
    return poll(descriptors, count, limit_ms);
}

EXPORT int epoll_wait(int descriptor, struct epoll_event *events, int most, int limit_ms)
{
    static void *_Atomic kept;
    int (*next)(int, struct epoll_event *, int, int) = next_of(&kept, "epoll_wait");
    struct limited_wait wait = begin_wait(limit_ms);
    int result;
    do
        result = next ? next(descriptor, events, most, limit_ms)
                      : result_of(SYSCALL_4(SYS_epoll_wait, descriptor, events, most, limit_ms));
    while (goes_on(&wait, result, &limit_ms));
    return result;
}

EXPORT int epoll_pwait(int descriptor, struct epoll_event *events, int most, int limit_ms,
                       const sigset_t *mask)
{
    static void *_Atomic kept;
    int (*next)(int, struct epoll_event *, int, int, const sigset_t *) =
        next_of(&kept, "epoll_pwait");
    struct limited_wait wait = begin_wait(limit_ms);
    int result;
    do
        result = next ? next(descriptor, events, most, limit_ms, mask)
                      : result_of(SYSCALL_6(SYS_epoll_pwait, descriptor, events, most, limit_ms,
                                            mask, (size_t)8));
    while (goes_on(&wait, result, &limit_ms));
    return result;
}

/* A sleep goes on by itself when there is a place for the time that is left. */

EXPORT int nanosleep(const struct timespec *time, struct timespec *left)
{
    static void *_Atomic kept;
    struct timespec own;
    int (*next)(const struct timespec *, struct timespec *) = next_of(&kept, "nanosleep");
    if (!left)
        left = &own;
    return next ? next(time, left) : result_of(SYSCALL_2(SYS_nanosleep, time, left));
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left)
{
    static void *_Atomic kept;
    struct timespec own;
    int (*next)(clockid_t, int, const struct timespec *, struct timespec *) =
        next_of(&kept, "clock_nanosleep");
    if (!left)
        left = &own;
    return next ? next(clock, flags, time, left)
                : (int)-SYSCALL_4(SYS_clock_nanosleep, clock, flags, time, left);
}

EXPORT int usleep(useconds_t microseconds)
{
    struct timespec time = {.tv_sec = microseconds / 1000000,
                            .tv_nsec = (long)(microseconds % 1000000) * 1000};
    return nanosleep(&time, NULL);
}
