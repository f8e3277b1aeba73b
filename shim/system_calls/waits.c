/* SPDX-License-Identifier: MIT
 *
 * waits.c: system calls with a timeout, which a collection must not end.
 *
 * A collection stops threads by a signal. The kernel ends some waits with EINTR then, although the
 * program has no handler for the signal. The collector restarts most of them where it stopped the
 * thread (gc/world/stop.c), but not those whose timeout is a number of milliseconds: it does not
 * know how much of it has passed. The functions here do, and restart them with what remains. The
 * allocator says whether a collection alone has ended the wait (ended_waits); EINTR for a signal of
 * the program is passed on.
 *
 * A socket may have a timeout of its own (SO_RCVTIMEO). When a collection has ended a wait on it,
 * poll() waits for the rest of the timeout. Until the program sets the first such timeout, no
 * socket is asked for one.
 *
 * A write of more bytes than a pipe takes at once may transfer only a part when a signal interrupts
 * it. The same is true of send, recv with MSG_WAITALL, writev and the like. If a collection has cut
 * a transfer short, the functions here transfer the rest by further calls.
 *
 * With an allocator that is no collector, each function is libc's.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/kernel.h"
#include "shim/system_calls/next_call.h"
#include "shim/route/route.h"
#include "vm/clock.h"
#include "vm/syscall.h"

EXPORT int __poll_chk(struct pollfd *descriptors, nfds_t count, int timeout_ms, size_t bytes);
void __chk_fail(void) __attribute__((noreturn));

enum { KERNEL_SIGSET_BYTES = 8 };

struct timed_wait {
    uint32_t (*ended_waits)(void); /* of the allocator; NULL: no wait is restarted */
    uint32_t ended;
    int64_t begun_ns;
};

/* Whether a collection, and no handler of the program's after it, has ended a wait or transfer of
 * this thread since *ended was read; reads it again. */
static bool has_ended_one(uint32_t (*ended_waits)(void), uint32_t *ended)
{
    uint32_t before = *ended;
    *ended = ended_waits();
    return *ended != before && *ended % 2 != 0;
}

static struct timed_wait begin_wait(bool has_timeout)
{
    struct timed_wait wait = {0};
    if (has_timeout)
        wait.ended_waits = route_resolve()->allocator->ended_waits;
    if (wait.ended_waits) {
        wait.ended = wait.ended_waits();
        wait.begun_ns = (int64_t)monotonic_ns();
    }
    return wait;
}

/* Whether a collection alone ended the wait that has this result. */
static bool was_ended_by_collection(struct timed_wait *wait, long result)
{
    if (result >= 0 || errno != EINTR || !wait->ended_waits)
        return false;
    return has_ended_one(wait->ended_waits, &wait->ended);
}

static int remaining_ms(const struct timed_wait *wait, int64_t timeout_ns)
{
    int64_t remaining_ns = wait->begun_ns + timeout_ns - (int64_t)monotonic_ns();
    int64_t remaining = remaining_ns > 0 ? (remaining_ns + 999999) / 1000000 : 0;
    return remaining < INT_MAX ? (int)remaining : INT_MAX;
}

/* Whether to restart the wait, then with a timeout of *left. */
static bool must_restart(struct timed_wait *wait, int result, int timeout_ms, int *left)
{
    if (!was_ended_by_collection(wait, result))
        return false;
    *left = remaining_ms(wait, timeout_ms * INT64_C(1000000));
    return true;
}

/* The body of such a function: restarts the wait until anything but a collection has ended it. In
 * the arguments `left` is what remains of the timeout. */
#define WAIT_MILLISECONDS(name, timeout_ms, system_call, ...)                               \
    do {                                                                                    \
        FIND_NEXT(name);                                                                    \
        struct timed_wait wait = begin_wait((timeout_ms) > 0);                              \
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

/* What poll is in a program that was compiled with _FORTIFY_SOURCE. */
EXPORT int __poll_chk(struct pollfd *descriptors, nfds_t count, int timeout_ms, size_t bytes)
{
    if (bytes / sizeof *descriptors < count)
        __chk_fail();
    return poll(descriptors, count, timeout_ms);
}

EXPORT int epoll_wait(int descriptor, struct epoll_event *events, int most, int timeout_ms)
{
    WAIT_MILLISECONDS(epoll_wait, timeout_ms,
                      SYSCALL_4(SYS_epoll_wait, descriptor, events, most, left), descriptor, events,
                      most, left);
}

EXPORT int epoll_pwait(int descriptor, struct epoll_event *events, int most, int timeout_ms,
                       const sigset_t *mask)
{
    WAIT_MILLISECONDS(
        epoll_pwait, timeout_ms,
        SYSCALL_6(SYS_epoll_pwait, descriptor, events, most, left, mask, KERNEL_SIGSET_BYTES),
        descriptor, events, most, left, mask);
}

/* Waits whose timeout is a span of time (struct timespec) that the kernel does not write back. They
 * are restarted with what remains of it, as those above are. */

static bool must_restart_span(struct timed_wait *wait, int result, const struct timespec *span,
                              struct timespec *left)
{
    const int64_t second_ns = 1000000000, most_seconds = INT64_MAX / second_ns / 2;
    if (!was_ended_by_collection(wait, result))
        return false;
    *left = *span;
    if (span->tv_sec > most_seconds)
        return true;
    int64_t left_ns =
        wait->begun_ns + span->tv_sec * second_ns + span->tv_nsec - (int64_t)monotonic_ns();
    left_ns = left_ns > 0 ? left_ns : 0;
    *left = (struct timespec){.tv_sec = left_ns / second_ns, .tv_nsec = left_ns % second_ns};
    return true;
}

#define WAIT_SPAN(name, span, system_call, ...)                                             \
    do {                                                                                    \
        FIND_NEXT(name);                                                                    \
        struct timed_wait wait = begin_wait((span) != NULL);                                \
        struct timespec rest;                                                               \
        const struct timespec *left = span;                                                 \
        int result;                                                                         \
        for (;;) {                                                                          \
            result = next ? next(__VA_ARGS__) : (int)libc_result(CANCELLABLE(system_call)); \
            if (!must_restart_span(&wait, result, span, &rest))                             \
                return result;                                                              \
            left = &rest;                                                                   \
        }                                                                                   \
    } while (0)

EXPORT int epoll_pwait2(int descriptor, struct epoll_event *events, int most,
                        const struct timespec *span, const sigset_t *mask)
{
    WAIT_SPAN(
        epoll_pwait2, span,
        SYSCALL_6(SYS_epoll_pwait2, descriptor, events, most, left, mask, KERNEL_SIGSET_BYTES),
        descriptor, events, most, left, mask);
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

ssize_t __write(int descriptor, const void *buffer, size_t bytes);
EXPORT int thrd_sleep(const struct timespec *time, struct timespec *left);

/* A transfer that a collection may cut short. */
struct transfer {
    uint32_t (*ended_waits)(void); /* of the allocator; NULL: no wait is restarted */
    uint32_t ended;
};

static struct transfer begin_transfer(size_t bytes)
{
    struct transfer transfer = {0};
    if (bytes > PIPE_BUF)
        transfer.ended_waits = route_resolve()->allocator->ended_waits;
    if (transfer.ended_waits)
        transfer.ended = transfer.ended_waits();
    return transfer;
}

/* Whether a collection has ended a wait of this thread since the last question. */
static bool was_interrupted(struct transfer *transfer)
{
    return transfer->ended_waits && has_ended_one(transfer->ended_waits, &transfer->ended);
}

static bool was_cut_short(struct transfer *transfer, ssize_t done, size_t bytes)
{
    return done > 0 && (size_t)done < bytes && was_interrupted(transfer);
}

static ssize_t write_some(int descriptor, const void *buffer, size_t bytes)
{
    FIND_NEXT(write);
    return next ? next(descriptor, buffer, bytes) : __write(descriptor, buffer, bytes);
}

EXPORT ssize_t write(int descriptor, const void *buffer, size_t bytes)
{
    pin_message(buffer, bytes);
    struct transfer transfer = begin_transfer(bytes);
    ssize_t done = write_some(descriptor, buffer, bytes), more = done;
    while (more > 0 && was_cut_short(&transfer, done, bytes)) {
        more = write_some(descriptor, (const char *)buffer + done, bytes - (size_t)done);
        done += more > 0 ? more : 0;
    }
    return done;
}

/* Messages in parts. The list of parts is read only when a collection has ended the call, and as
 * memory that may be gone: another thread may have freed it since the kernel has read it. */

static size_t bytes_of_parts(const struct iovec *parts, size_t count)
{
    struct iovec part;
    size_t bytes = 0;
    for (; count > 0 && read_program(&part, parts, sizeof part) == sizeof part; count--, parts++)
        bytes += part.iov_len;
    return bytes;
}

/* What is left of the first part of a message that is not done. No bytes: all is. */
struct rest {
    char *start;
    size_t bytes;
};

static struct rest rest_of_parts(const struct iovec *parts, size_t count, ssize_t done)
{
    struct iovec part;
    size_t left = (size_t)done;
    for (; count > 0 && read_program(&part, parts, sizeof part) == sizeof part; count--, parts++) {
        if (left < part.iov_len)
            return (struct rest){(char *)part.iov_base + left, part.iov_len - left};
        left -= part.iov_len;
    }
    return (struct rest){NULL, 0};
}

typedef ssize_t hand_on_part(int descriptor, char *start, size_t bytes, int flags);

/* Hands on, part by part, what is left of a message after the `done` bytes of a call that a
 * collection may have cut short. Returns what is done then. */
static ssize_t complete(struct transfer *transfer, int descriptor, const struct iovec *parts,
                        size_t count, ssize_t done, int flags, hand_on_part *hand_on)
{
    for (;;) {
        struct rest rest = rest_of_parts(parts, count, done);
        ssize_t more = rest.bytes > 0 ? hand_on(descriptor, rest.start, rest.bytes, flags) : 0;
        if (more <= 0)
            return done;
        done += more;
        if ((size_t)more < rest.bytes && !was_cut_short(transfer, more, rest.bytes))
            return done;
    }
}

static ssize_t write_parts(int descriptor, const struct iovec *parts, int count)
{
    FIND_NEXT(writev);
    return next ? next(descriptor, parts, count)
                : libc_result(CANCELLABLE(SYSCALL_3(SYS_writev, descriptor, parts, count)));
}

static ssize_t write_part(int descriptor, char *start, size_t bytes, int flags)
{
    (void)flags;
    return write_some(descriptor, start, bytes);
}

EXPORT ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    pin_parts(parts, (size_t)count);
    struct transfer transfer = begin_transfer(SIZE_MAX);
    ssize_t done = write_parts(descriptor, parts, count);
    return done > 0 && was_interrupted(&transfer)
               ? complete(&transfer, descriptor, parts, (size_t)count, done, 0, write_part)
               : done;
}

/* The kernel restarts a sleep by itself if it can store the remaining time: so it always can. */

EXPORT int nanosleep(const struct timespec *time, struct timespec *left)
{
    FIND_NEXT(nanosleep);
    struct timespec own;
    if (!left)
        left = &own;
    return next ? next(time, left)
                : (int)libc_result(CANCELLABLE(SYSCALL_2(SYS_nanosleep, time, left)));
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left)
{
    FIND_NEXT(clock_nanosleep);
    struct timespec own;
    if (!left)
        left = &own;
    return next ? next(clock, flags, time, left)
                : (int)-CANCELLABLE(SYSCALL_4(SYS_clock_nanosleep, clock, flags, time, left));
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

/* Sockets with a timeout. */

EXPORT ssize_t __recv_chk(int descriptor, void *buffer, size_t bytes, size_t room, int flags);
EXPORT ssize_t __recvfrom_chk(int descriptor, void *buffer, size_t bytes, size_t room, int flags,
                              struct sockaddr *address, socklen_t *length);

static _Atomic bool sockets_have_timeouts;

EXPORT int setsockopt(int descriptor, int level, int name, const void *value, socklen_t bytes)
{
    FIND_NEXT(setsockopt);
    if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO))
        atomic_store_explicit(&sockets_have_timeouts, true, memory_order_relaxed);
    return next
               ? next(descriptor, level, name, value, bytes)
               : (int)libc_result(SYSCALL_5(SYS_setsockopt, descriptor, level, name, value, bytes));
}

static int64_t socket_timeout_ns(int descriptor, int name)
{
    struct timeval timeout = {0};
    socklen_t bytes = sizeof timeout;
    SYSCALL_5(SYS_getsockopt, descriptor, SOL_SOCKET, name, &timeout, &bytes);
    return timeout.tv_sec * INT64_C(1000000000) + timeout.tv_usec * INT64_C(1000);
}

/* Whether to call again: there is something to receive now, or room to send. */
static bool must_restart_on_socket(struct timed_wait *wait, long result, int descriptor,
                                   int timeout_name, short event)
{
    if (!was_ended_by_collection(wait, result))
        return false;
    struct pollfd waited_for = {.fd = descriptor, .events = event};
    int found =
        poll(&waited_for, 1, remaining_ms(wait, socket_timeout_ns(descriptor, timeout_name)));
    if (found == 0)
        errno = EAGAIN; /* as the socket's own timeout sets it */
    wait->ended = wait->ended_waits();
    return found > 0;
}

static bool must_receive_again(struct timed_wait *wait, long result, int descriptor)
{
    return must_restart_on_socket(wait, result, descriptor, SO_RCVTIMEO, POLLIN);
}

static bool must_send_again(struct timed_wait *wait, long result, int descriptor)
{
    return must_restart_on_socket(wait, result, descriptor, SO_SNDTIMEO, POLLOUT);
}

/* As WAIT_MILLISECONDS. must_restart: must_receive_again or must_send_again. */
#define WAIT_ON_SOCKET(name, must_restart, system_call, descriptor, ...)                    \
    do {                                                                                    \
        FIND_NEXT(name);                                                                    \
        struct timed_wait wait =                                                            \
            begin_wait(atomic_load_explicit(&sockets_have_timeouts, memory_order_relaxed)); \
        __typeof__(name(descriptor, __VA_ARGS__)) result;                                   \
        do                                                                                  \
            result = next ? next(descriptor, __VA_ARGS__)                                   \
                          : (__typeof__(result))libc_result(CANCELLABLE(system_call));      \
        while (must_restart(&wait, result, descriptor));                                    \
        return result;                                                                      \
    } while (0)

EXPORT ssize_t recvfrom(int descriptor, void *buffer, size_t bytes, int flags,
                        struct sockaddr *address, socklen_t *length)
{
    if (!address)
        return recv(descriptor, buffer, bytes, flags);
    WAIT_ON_SOCKET(recvfrom, must_receive_again,
                   SYSCALL_6(SYS_recvfrom, descriptor, buffer, bytes, flags, address, length),
                   descriptor, buffer, bytes, flags, address, length);
}

static ssize_t receive_some(int descriptor, void *buffer, size_t bytes, int flags)
{
    WAIT_ON_SOCKET(recv, must_receive_again,
                   SYSCALL_4(SYS_recvfrom, descriptor, buffer, bytes, flags), descriptor, buffer,
                   bytes, flags);
}

/* MSG_WAITALL has no meaning elsewhere: a datagram may be short. */
static bool is_stream(int descriptor)
{
    int type = 0;
    socklen_t bytes = sizeof type;
    SYSCALL_5(SYS_getsockopt, descriptor, SOL_SOCKET, SO_TYPE, &type, &bytes);
    return type == SOCK_STREAM;
}

EXPORT ssize_t recv(int descriptor, void *buffer, size_t bytes, int flags)
{
    struct transfer transfer = begin_transfer(flags & MSG_WAITALL ? SIZE_MAX : 0);
    ssize_t done = receive_some(descriptor, buffer, bytes, flags), more = done;
    while (more > 0 && was_cut_short(&transfer, done, bytes) && is_stream(descriptor)) {
        size_t kept = flags & MSG_PEEK ? 0 : (size_t)done; /* a peek begins where it began */
        more = receive_some(descriptor, (char *)buffer + kept, bytes - kept, flags);
        done = more > 0 ? (ssize_t)kept + more : done;
    }
    return done;
}

static ssize_t receive_message(int descriptor, struct msghdr *message, int flags)
{
    WAIT_ON_SOCKET(recvmsg, must_receive_again, SYSCALL_3(SYS_recvmsg, descriptor, message, flags),
                   descriptor, message, flags);
}

static ssize_t receive_part(int descriptor, char *start, size_t bytes, int flags)
{
    return receive_some(descriptor, start, bytes, flags);
}

/* A peek that was cut short begins again, with the header that was given. */
static ssize_t peek_whole_message(int descriptor, struct msghdr *message, int flags)
{
    struct transfer transfer = begin_transfer(SIZE_MAX);
    struct msghdr given;
    bool is_known = read_program(&given, message, sizeof given) == sizeof given;
    ssize_t done = receive_message(descriptor, message, flags);
    while (is_known && done > 0 && was_interrupted(&transfer) && is_stream(descriptor) &&
           (size_t)done < bytes_of_parts(given.msg_iov, given.msg_iovlen)) {
        *message = given;
        done = receive_message(descriptor, message, flags);
    }
    return done;
}

static ssize_t complete_message(struct transfer *transfer, int descriptor,
                                const struct msghdr *message, ssize_t done, int flags,
                                hand_on_part *hand_on)
{
    struct msghdr header;
    if (done <= 0 || !was_interrupted(transfer) || !is_stream(descriptor) ||
        read_program(&header, message, sizeof header) != sizeof header)
        return done;
    return complete(transfer, descriptor, header.msg_iov, header.msg_iovlen, done, flags, hand_on);
}

/* What belongs to the message as a whole came with its first bytes. */
EXPORT ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
    if (flags & MSG_PEEK && flags & MSG_WAITALL)
        return peek_whole_message(descriptor, message, flags);
    struct transfer transfer = begin_transfer(flags & MSG_WAITALL ? SIZE_MAX : 0);
    ssize_t done = receive_message(descriptor, message, flags);
    return complete_message(&transfer, descriptor, message, done, flags, receive_part);
}

EXPORT int accept4(int descriptor, struct sockaddr *address, socklen_t *length, int flags)
{
    WAIT_ON_SOCKET(accept4, must_receive_again,
                   SYSCALL_4(SYS_accept4, descriptor, address, length, flags), descriptor, address,
                   length, flags);
}

EXPORT int accept(int descriptor, struct sockaddr *address, socklen_t *length)
{
    WAIT_ON_SOCKET(accept, must_receive_again, SYSCALL_3(SYS_accept, descriptor, address, length),
                   descriptor, address, length);
}

static ssize_t send_to(int descriptor, const void *buffer, size_t bytes, int flags,
                       const struct sockaddr *address, socklen_t length)
{
    WAIT_ON_SOCKET(sendto, must_send_again,
                   SYSCALL_6(SYS_sendto, descriptor, buffer, bytes, flags, address, length),
                   descriptor, buffer, bytes, flags, address, length);
}

/* With an address a message is sent whole, or not at all. */
EXPORT ssize_t sendto(int descriptor, const void *buffer, size_t bytes, int flags,
                      const struct sockaddr *address, socklen_t length)
{
    if (!address)
        return send(descriptor, buffer, bytes, flags);
    pin_message(buffer, bytes);
    return send_to(descriptor, buffer, bytes, flags, address, length);
}

static ssize_t send_some(int descriptor, const void *buffer, size_t bytes, int flags)
{
    WAIT_ON_SOCKET(send, must_send_again, SYSCALL_4(SYS_sendto, descriptor, buffer, bytes, flags),
                   descriptor, buffer, bytes, flags);
}

EXPORT ssize_t send(int descriptor, const void *buffer, size_t bytes, int flags)
{
    pin_message(buffer, bytes);
    struct transfer transfer = begin_transfer(bytes);
    ssize_t done = send_some(descriptor, buffer, bytes, flags), more = done;
    while (more > 0 && was_cut_short(&transfer, done, bytes)) {
        more = send_some(descriptor, (const char *)buffer + done, bytes - (size_t)done, flags);
        done += more > 0 ? more : 0;
    }
    return done;
}

static ssize_t send_message(int descriptor, const struct msghdr *message, int flags)
{
    WAIT_ON_SOCKET(sendmsg, must_send_again, SYSCALL_3(SYS_sendmsg, descriptor, message, flags),
                   descriptor, message, flags);
}

static ssize_t send_part(int descriptor, char *start, size_t bytes, int flags)
{
    return send_some(descriptor, start, bytes, flags);
}

/* What belongs to the message as a whole went with its first bytes. */
EXPORT ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    pin_header(message);
    struct transfer transfer = begin_transfer(SIZE_MAX);
    ssize_t done = send_message(descriptor, message, flags);
    return complete_message(&transfer, descriptor, message, done, flags, send_part);
}

/* Many messages in one call: what it returns is how many were handed on. */

EXPORT int recvmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *span)
{
    WAIT_ON_SOCKET(recvmmsg, must_receive_again,
                   SYSCALL_5(SYS_recvmmsg, descriptor, messages, count, flags, span), descriptor,
                   messages, count, flags, span);
}

static int send_messages(int descriptor, struct mmsghdr *messages, unsigned count, int flags)
{
    WAIT_ON_SOCKET(sendmmsg, must_send_again,
                   SYSCALL_4(SYS_sendmmsg, descriptor, messages, count, flags), descriptor,
                   messages, count, flags);
}

EXPORT int sendmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags)
{
    if (route_resolve()->allocator->pin)
        for (unsigned i = 0; i < count && i < MOST_PARTS; i++)
            pin_header(&messages[i].msg_hdr);
    return send_messages(descriptor, messages, count, flags);
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
