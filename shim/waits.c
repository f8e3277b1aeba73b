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
 * A socket may have been given a limit too. When a collection has ended a wait on it, poll waits
 * for what is left of that. As long as the program has given none a limit, nothing is looked at.
 *
 * A write of more than a pipe takes at once, and what is sent or received like it, comes back with
 * a part when it was interrupted: what is left follows.
 *
 * Under allocators without a collector each is libc's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "shim/interpose.h"
#include "shim/kernel.h"
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

static ssize_t bytes_of(long result)
{
    if (!syscall_failed(result))
        return result;
    errno = (int)-result;
    return -1;
}

static int result_of(long result)
{
    return (int)bytes_of(result);
}

struct limited_wait {
    uint32_t (*ended_waits)(void); /* NULL: nothing need be looked after */
    uint32_t ended;
    int64_t begun_ns;
};

static struct limited_wait begin_wait(bool has_limit)
{
    struct limited_wait wait = {0};
    if (has_limit)
        wait.ended_waits = route_settle()->allocator->ended_waits;
    if (wait.ended_waits) {
        wait.ended = wait.ended_waits();
        wait.begun_ns = (int64_t)monotonic_ns();
    }
    return wait;
}

/* Whether a wait with this result was ended by a collection. */
static bool was_ended(struct limited_wait *wait, long result)
{
    if (result >= 0 || errno != EINTR || !wait->ended_waits)
        return false;
    uint32_t before = wait->ended;
    wait->ended = wait->ended_waits();
    return wait->ended != before;
}

static int left_ms(const struct limited_wait *wait, int64_t limit_ns)
{
    int64_t left_ns = wait->begun_ns + limit_ns - (int64_t)monotonic_ns();
    return left_ns > 0 ? (int)((left_ns + 999999) / 1000000) : 0;
}

/* Then *left is what is left of the limit. */
static bool goes_on(struct limited_wait *wait, int result, int limit_ms, int *left)
{
    if (!was_ended(wait, result))
        return false;
    *left = left_ms(wait, limit_ms * INT64_C(1000000));
    return true;
}

EXPORT int poll(struct pollfd *descriptors, nfds_t count, int limit_ms)
{
    static void *_Atomic kept;
    int (*next)(struct pollfd *, nfds_t, int) = next_of(&kept, "poll");
    struct limited_wait wait = begin_wait(limit_ms > 0);
    int result, left = limit_ms;
    do
        result = next ? next(descriptors, count, left)
                      : result_of(SYSCALL_3(SYS_poll, descriptors, count, left));
    while (goes_on(&wait, result, limit_ms, &left));
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
    struct limited_wait wait = begin_wait(limit_ms > 0);
    int result, left = limit_ms;
    do
        result = next ? next(descriptor, events, most, left)
                      : result_of(SYSCALL_4(SYS_epoll_wait, descriptor, events, most, left));
    while (goes_on(&wait, result, limit_ms, &left));
    return result;
}

EXPORT int epoll_pwait(int descriptor, struct epoll_event *events, int most, int limit_ms,
                       const sigset_t *mask)
{
    static void *_Atomic kept;
    int (*next)(int, struct epoll_event *, int, int, const sigset_t *) =
        next_of(&kept, "epoll_pwait");
    struct limited_wait wait = begin_wait(limit_ms > 0);
    int result, left = limit_ms;
    do
        result = next ? next(descriptor, events, most, left, mask)
                      : result_of(SYSCALL_6(SYS_epoll_pwait, descriptor, events, most, left, mask,
                                            (size_t)8));
    while (goes_on(&wait, result, limit_ms, &left));
    return result;
}

ssize_t __write(int descriptor, const void *buffer, size_t bytes);
EXPORT int thrd_sleep(const struct timespec *time, struct timespec *left);

/* Whether a transfer of so many bytes has ended with a part of them for a collection. */
struct transfer {
    uint32_t (*ended_waits)(void); /* NULL: nothing need be looked after */
    uint32_t ended;
};

static struct transfer begin_transfer(size_t bytes)
{
    struct transfer transfer = {0};
    if (bytes > PIPE_BUF)
        transfer.ended_waits = route_settle()->allocator->ended_waits;
    if (transfer.ended_waits)
        transfer.ended = transfer.ended_waits();
    return transfer;
}

static bool was_cut_short(struct transfer *transfer, ssize_t done, size_t bytes)
{
    if (done <= 0 || (size_t)done >= bytes || !transfer->ended_waits)
        return false;
    uint32_t before = transfer->ended;
    transfer->ended = transfer->ended_waits();
    return transfer->ended != before;
}

static ssize_t write_some(int descriptor, const void *buffer, size_t bytes)
{
    static void *_Atomic kept;
    ssize_t (*next)(int, const void *, size_t) = next_of(&kept, "write");
    return next ? next(descriptor, buffer, bytes) : __write(descriptor, buffer, bytes);
}

EXPORT ssize_t write(int descriptor, const void *buffer, size_t bytes)
{
    struct transfer transfer = begin_transfer(bytes);
    ssize_t done = write_some(descriptor, buffer, bytes), more = done;
    while (more > 0 && was_cut_short(&transfer, done, bytes)) {
        more = write_some(descriptor, (const char *)buffer + done, bytes - (size_t)done);
        done += more > 0 ? more : 0;
    }
    pin_message(buffer, done);
    return done;
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

EXPORT int thrd_sleep(const struct timespec *time, struct timespec *left)
{
    int error = clock_nanosleep(CLOCK_REALTIME, 0, time, left);
    return error == 0 ? 0 : error == EINTR ? -1 : -2;
}

/* Sockets with a limit. */

EXPORT ssize_t __recv_chk(int descriptor, void *buffer, size_t bytes, size_t room, int flags);
EXPORT ssize_t __recvfrom_chk(int descriptor, void *buffer, size_t bytes, size_t room, int flags,
                              struct sockaddr *address, socklen_t *length);

static _Atomic bool sockets_have_limits;

EXPORT int setsockopt(int descriptor, int level, int name, const void *value, socklen_t bytes)
{
    static void *_Atomic kept;
    int (*next)(int, int, int, const void *, socklen_t) = next_of(&kept, "setsockopt");
    if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO))
        atomic_store_explicit(&sockets_have_limits, true, memory_order_relaxed);
    return next ? next(descriptor, level, name, value, bytes)
                : result_of(SYSCALL_5(SYS_setsockopt, descriptor, level, name, value, bytes));
}

static struct limited_wait begin_socket_wait(void)
{
    return begin_wait(atomic_load_explicit(&sockets_have_limits, memory_order_relaxed));
}

static int64_t socket_limit_ns(int descriptor, int name)
{
    struct timeval limit = {0};
    socklen_t bytes = sizeof limit;
    SYSCALL_5(SYS_getsockopt, descriptor, SOL_SOCKET, name, &limit, &bytes);
    return limit.tv_sec * INT64_C(1000000000) + limit.tv_usec * INT64_C(1000);
}

/* Whether to call again: there is something to receive now, or room to send. */
static bool socket_goes_on(struct limited_wait *wait, long result, int descriptor, int limit_name,
                           short event)
{
    if (!was_ended(wait, result))
        return false;
    struct pollfd waited_for = {.fd = descriptor, .events = event};
    int found = poll(&waited_for, 1, left_ms(wait, socket_limit_ns(descriptor, limit_name)));
    if (found == 0)
        errno = EAGAIN; /* as the socket's own limit does it */
    wait->ended = wait->ended_waits();
    return found > 0;
}

static bool receives_on(struct limited_wait *wait, long result, int descriptor)
{
    return socket_goes_on(wait, result, descriptor, SO_RCVTIMEO, POLLIN);
}

static bool sends_on(struct limited_wait *wait, long result, int descriptor)
{
    return socket_goes_on(wait, result, descriptor, SO_SNDTIMEO, POLLOUT);
}

EXPORT ssize_t recvfrom(int descriptor, void *buffer, size_t bytes, int flags,
                        struct sockaddr *address, socklen_t *length)
{
    static void *_Atomic kept;
    ssize_t (*next)(int, void *, size_t, int, struct sockaddr *, socklen_t *) =
        next_of(&kept, "recvfrom");
    struct limited_wait wait = begin_socket_wait();
    ssize_t result;
    do
        result = next ? next(descriptor, buffer, bytes, flags, address, length)
                      : bytes_of(SYSCALL_6(SYS_recvfrom, descriptor, buffer, bytes, flags, address,
                                           length));
    while (receives_on(&wait, result, descriptor));
    return result;
}

static ssize_t receive_some(int descriptor, void *buffer, size_t bytes, int flags)
{
    static void *_Atomic kept;
    ssize_t (*next)(int, void *, size_t, int) = next_of(&kept, "recv");
    struct limited_wait wait = begin_socket_wait();
    ssize_t result;
    do
        result = next ? next(descriptor, buffer, bytes, flags)
                      : bytes_of(SYSCALL_4(SYS_recvfrom, descriptor, buffer, bytes, flags));
    while (receives_on(&wait, result, descriptor));
    return result;
}

EXPORT ssize_t recv(int descriptor, void *buffer, size_t bytes, int flags)
{
    struct transfer transfer = begin_transfer(flags & MSG_WAITALL ? SIZE_MAX : 0);
    ssize_t done = receive_some(descriptor, buffer, bytes, flags), more = done;
    while (more > 0 && was_cut_short(&transfer, done, bytes)) {
        more = receive_some(descriptor, (char *)buffer + done, bytes - (size_t)done, flags);
        done += more > 0 ? more : 0;
    }
    return done;
}

EXPORT ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
    static void *_Atomic kept;
    ssize_t (*next)(int, struct msghdr *, int) = next_of(&kept, "recvmsg");
    struct limited_wait wait = begin_socket_wait();
    ssize_t result;
    do
        result = next ? next(descriptor, message, flags)
                      : bytes_of(SYSCALL_3(SYS_recvmsg, descriptor, message, flags));
    while (receives_on(&wait, result, descriptor));
    return result;
}

EXPORT int accept4(int descriptor, struct sockaddr *address, socklen_t *length, int flags)
{
    static void *_Atomic kept;
    int (*next)(int, struct sockaddr *, socklen_t *, int) = next_of(&kept, "accept4");
    struct limited_wait wait = begin_socket_wait();
    int result;
    do
        result = next ? next(descriptor, address, length, flags)
                      : result_of(SYSCALL_4(SYS_accept4, descriptor, address, length, flags));
    while (receives_on(&wait, result, descriptor));
    return result;
}

EXPORT int accept(int descriptor, struct sockaddr *address, socklen_t *length)
{
    static void *_Atomic kept;
    int (*next)(int, struct sockaddr *, socklen_t *) = next_of(&kept, "accept");
    struct limited_wait wait = begin_socket_wait();
    int result;
    do
        result = next ? next(descriptor, address, length)
                      : result_of(SYSCALL_3(SYS_accept, descriptor, address, length));
    while (receives_on(&wait, result, descriptor));
    return result;
}

EXPORT ssize_t sendto(int descriptor, const void *buffer, size_t bytes, int flags,
                      const struct sockaddr *address, socklen_t length)
{
    static void *_Atomic kept;
    ssize_t (*next)(int, const void *, size_t, int, const struct sockaddr *, socklen_t) =
        next_of(&kept, "sendto");
    struct limited_wait wait = begin_socket_wait();
    ssize_t result;
    do
        result = next ? next(descriptor, buffer, bytes, flags, address, length)
                      : bytes_of(SYSCALL_6(SYS_sendto, descriptor, buffer, bytes, flags, address,
                                           length));
    while (sends_on(&wait, result, descriptor));
    return result;
}

static ssize_t send_some(int descriptor, const void *buffer, size_t bytes, int flags)
{
    static void *_Atomic kept;
    ssize_t (*next)(int, const void *, size_t, int) = next_of(&kept, "send");
    struct limited_wait wait = begin_socket_wait();
    ssize_t result;
    do
        result = next ? next(descriptor, buffer, bytes, flags)
                      : bytes_of(SYSCALL_4(SYS_sendto, descriptor, buffer, bytes, flags));
    while (sends_on(&wait, result, descriptor));
    return result;
}

EXPORT ssize_t send(int descriptor, const void *buffer, size_t bytes, int flags)
{
    struct transfer transfer = begin_transfer(bytes);
    ssize_t done = send_some(descriptor, buffer, bytes, flags), more = done;
    while (more > 0 && was_cut_short(&transfer, done, bytes)) {
        more = send_some(descriptor, (const char *)buffer + done, bytes - (size_t)done, flags);
        done += more > 0 ? more : 0;
    }
    pin_message(buffer, done);
    return done;
}

EXPORT ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    static void *_Atomic kept;
    ssize_t (*next)(int, const struct msghdr *, int) = next_of(&kept, "sendmsg");
    struct limited_wait wait = begin_socket_wait();
    ssize_t result;
    do
        result = next ? next(descriptor, message, flags)
                      : bytes_of(SYSCALL_3(SYS_sendmsg, descriptor, message, flags));
    while (sends_on(&wait, result, descriptor));
    return result;
}

/* What receiving is in a program that was compiled with _FORTIFY_SOURCE. */

EXPORT ssize_t __recv_chk(int descriptor, void *buffer, size_t bytes, size_t room, int flags)
{
    if (room < bytes)
        __chk_fail();
    return recv(descriptor, buffer, bytes, flags);
}

EXPORT ssize_t __recvfrom_chk(int descriptor, void *buffer, size_t bytes, size_t room, int flags,
                              struct sockaddr *address, socklen_t *length)
{
    if (room < bytes)
        __chk_fail();
    return recvfrom(descriptor, buffer, bytes, flags, address, length);
}
