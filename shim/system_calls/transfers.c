/* SPDX-License-Identifier: MIT
 *
 * transfers.c: bytes and messages that are sent and received, which a collection must not cut
 * short; and waits on sockets.
 *
 * A socket may have a timeout of its own (SO_RCVTIMEO). When a collection has ended a wait on it,
 * poll() waits for the rest of the timeout. Until the program sets the first such timeout, no
 * socket is asked for one.
 *
 * A write of more bytes than a pipe takes at once may transfer only a part when a signal interrupts
 * it. The same is true of send, recv with MSG_WAITALL, writev and the like. If a collection has cut
 * a transfer short, the functions here transfer the rest by further calls. Together these do what
 * the one call would have done:
 *
 *     a limit of the socket's       counts from the first call
 *     the end, or an error          ends the transfer, and is left for the program's next call. So
 *                                   poll() looks for it before each further call, which does not
 *                                   wait
 *     nobody receives any more      no signal: the program has sent a part
 *     descriptors with a message    end the transfer when they have come
 *
 * Sockets of the Unix domain take more than poll() says, and keep no error for later: there a
 * further call that sends may wait.
 *
 * With an allocator that is no collector, each function is libc's.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/ended_waits.h"
#include "shim/system_calls/kernel.h"
#include "shim/system_calls/next_call.h"
#include "vm/syscall.h"

EXPORT ssize_t __recv_chk(int descriptor, void *buffer, size_t bytes, size_t room, int flags);
EXPORT ssize_t __recvfrom_chk(int descriptor, void *buffer, size_t bytes, size_t room, int flags,
                              struct sockaddr *address, socklen_t *length);
void __chk_fail(void) __attribute__((noreturn));

/* Sockets. */

static _Atomic bool sockets_have_timeouts, sockets_have_marks;

EXPORT int setsockopt(int descriptor, int level, int name, const void *value, socklen_t bytes)
{
    FIND_NEXT(setsockopt);
    if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO))
        atomic_store_explicit(&sockets_have_timeouts, true, memory_order_relaxed);
    if (level == SOL_SOCKET && name == SO_RCVLOWAT)
        atomic_store_explicit(&sockets_have_marks, true, memory_order_relaxed);
    return next
               ? next(descriptor, level, name, value, bytes)
               : (int)libc_result(SYSCALL_5(SYS_setsockopt, descriptor, level, name, value, bytes));
}

static bool may_have_timeout(void)
{
    return atomic_load_explicit(&sockets_have_timeouts, memory_order_relaxed);
}

static bool may_have_mark(void)
{
    return atomic_load_explicit(&sockets_have_marks, memory_order_relaxed);
}

/* 0: it is no socket, or has no such option. */
static int option_of(int descriptor, int name)
{
    int value = 0;
    socklen_t bytes = sizeof value;
    SYSCALL_5(SYS_getsockopt, descriptor, SOL_SOCKET, name, &value, &bytes);
    return value;
}

/* MSG_WAITALL has no meaning elsewhere: a datagram may be short. */
static bool is_stream(int descriptor)
{
    return option_of(descriptor, SO_TYPE) == SOCK_STREAM;
}

/* What must be there for a call to return, where less than that was asked for is enough. */
static size_t mark_of(int descriptor)
{
    int mark = may_have_mark() ? option_of(descriptor, SO_RCVLOWAT) : 1;
    return mark > 1 ? (size_t)mark : 1;
}

static int64_t socket_timeout_ns(int descriptor, int name)
{
    struct timeval timeout = {0};
    socklen_t bytes = sizeof timeout;
    SYSCALL_5(SYS_getsockopt, descriptor, SOL_SOCKET, name, &timeout, &bytes);
    return timeout.tv_sec * INT64_C(1000000000) + timeout.tv_usec * INT64_C(1000);
}

/* What is left of it since the wait has begun. -1: there is none, or none any more. */
static int remaining_timeout_ms(const struct wait *wait, int descriptor, int name)
{
    int64_t timeout_ns = may_have_timeout() ? socket_timeout_ns(descriptor, name) : 0;
    return timeout_ns > 0 ? remaining_ms(wait, timeout_ns) : -1;
}

/* Whether to call again: there is something to receive now, or room to send. */
static bool must_restart_on_socket(struct wait *wait, long result, int descriptor, int timeout_name,
                                   short event)
{
    if (!may_be_restarted(wait, result) || !was_interrupted(wait))
        return false;
    struct pollfd waited_for = {.fd = descriptor, .events = event};
    int found = own_poll(&waited_for, 1, remaining_timeout_ms(wait, descriptor, timeout_name));
    if (found <= 0) {
        errno = found == 0 ? EAGAIN : errno; /* as the socket's own timeout sets it */
        return false;
    }
    bool handled = handler_came_last(wait);
    was_interrupted(wait); /* only the next one counts */
    errno = handled ? EINTR : errno;
    return !handled;
}

static bool must_receive_again(struct wait *wait, long result, int descriptor)
{
    return must_restart_on_socket(wait, result, descriptor, SO_RCVTIMEO, POLLIN);
}

static bool must_send_again(struct wait *wait, long result, int descriptor)
{
    return must_restart_on_socket(wait, result, descriptor, SO_SNDTIMEO, POLLOUT);
}

/* The body of a function: restarts the wait until anything but a collection has ended it.
 * must_restart: must_receive_again or must_send_again. */
#define WAIT_ON_SOCKET(name, must_restart, system_call, descriptor, ...)               \
    do {                                                                               \
        FIND_NEXT(name);                                                               \
        struct wait wait = begin_wait(may_have_timeout(), true);                       \
        __typeof__(name(descriptor, __VA_ARGS__)) result;                              \
        do                                                                             \
            result = next ? next(descriptor, __VA_ARGS__)                              \
                          : (__typeof__(result))libc_result(CANCELLABLE(system_call)); \
        while (must_restart(&wait, result, descriptor));                               \
        return result;                                                                 \
    } while (0)

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
static struct iovec rest_of_parts(const struct iovec *parts, size_t count, size_t done)
{
    struct iovec part;
    for (; count > 0 && read_program(&part, parts, sizeof part) == sizeof part; count--, parts++) {
        if (done < part.iov_len)
            return (struct iovec){(char *)part.iov_base + done, part.iov_len - done};
        done -= part.iov_len;
    }
    return (struct iovec){NULL, 0};
}

/* Sending. */

/* A single byte is sent whole. Up to PIPE_BUF are by a pipe, but the descriptor is not known to be
 * one. */
static struct wait begin_sending(size_t bytes)
{
    return begin_wait(bytes > 1, may_have_timeout());
}

static ssize_t send_some(int descriptor, const void *buffer, size_t bytes, int flags)
{
    WAIT_ON_SOCKET(send, must_send_again, SYSCALL_4(SYS_sendto, descriptor, buffer, bytes, flags),
                   descriptor, buffer, bytes, flags);
}

/* Whether to send more of the rest now. Waits until there is room. */
static bool may_send_more(const struct wait *wait, int descriptor)
{
    struct pollfd waited_for = {.fd = descriptor, .events = POLLOUT};
    return !handler_came_last(wait) &&
           own_poll(&waited_for, 1, remaining_timeout_ms(wait, descriptor, SO_SNDTIMEO)) > 0 &&
           !(waited_for.revents & (POLLERR | POLLHUP));
}

typedef ssize_t hand_on(const struct wait *wait, int descriptor, struct iovec part, int flags);

static ssize_t send_part(const struct wait *wait, int descriptor, struct iovec part, int flags)
{
    flags |= MSG_NOSIGNAL;
    if (option_of(descriptor, SO_DOMAIN) == AF_UNIX)
        return send_some(descriptor, part.iov_base, part.iov_len, flags);
    size_t done = 0;
    for (ssize_t more; done < part.iov_len && may_send_more(wait, descriptor);
         done += (size_t)more) {
        more = send_some(descriptor, (char *)part.iov_base + done, part.iov_len - done,
                         flags | MSG_DONTWAIT);
        if (more <= 0)
            break;
    }
    return (ssize_t)done;
}

/* Whether a transfer that returns before all is done waits for room, or for bytes. */
static bool does_wait(int descriptor, int flags)
{
    long status = SYSCALL_3(SYS_fcntl, descriptor, F_GETFL, 0);
    return !(flags & MSG_DONTWAIT) && !syscall_failed(status) && !(status & O_NONBLOCK);
}

/* Hands on a part, by further calls as long as a collection cuts them short, too. Returns how many
 * bytes of it are done. */
static size_t hand_on_part(struct wait *wait, int descriptor, struct iovec part, int flags,
                           hand_on *hand_on_some)
{
    size_t done = 0;
    ssize_t more;
    do {
        struct iovec rest = {(char *)part.iov_base + done, part.iov_len - done};
        more = rest.iov_len > 0 ? hand_on_some(wait, descriptor, rest, flags) : 0;
        done += more > 0 ? (size_t)more : 0;
    } while (more > 0 && was_interrupted(wait));
    return done;
}

/* Hands on, part by part, what is left of a message after the `done` bytes of a call that a
 * collection has cut short. Returns what is done then. */
static ssize_t hand_on_rest(struct wait *wait, int descriptor, const struct iovec *parts,
                            size_t count, ssize_t done, int flags, hand_on *hand_on_some)
{
    for (;;) {
        struct iovec rest = rest_of_parts(parts, count, (size_t)done);
        size_t more = hand_on_part(wait, descriptor, rest, flags, hand_on_some);
        done += (ssize_t)more;
        if (more < rest.iov_len || rest.iov_len == 0)
            return done;
    }
}

/* As hand_on_rest, of one part. */
static ssize_t hand_on_bytes(struct wait *wait, int descriptor, const void *buffer, size_t bytes,
                             ssize_t done, int flags, hand_on *hand_on_some)
{
    struct iovec rest = {(char *)(uintptr_t)buffer + done, bytes - (size_t)done};
    return done + (ssize_t)hand_on_part(wait, descriptor, rest, flags, hand_on_some);
}

/* Whether a signal can cut a transfer short. Of a file the disk or a limit has done it, and what
 * remains would be another request. */
static bool waits_for_others(int descriptor)
{
    struct stat status;
    struct termios settings;
    return fstat(descriptor, &status) == 0 &&
           (S_ISSOCK(status.st_mode) || S_ISFIFO(status.st_mode) ||
            (S_ISCHR(status.st_mode) && tcgetattr(descriptor, &settings) == 0));
}

static bool is_cut_short(struct wait *wait, int descriptor, ssize_t done, int flags)
{
    int error = errno;
    bool is_cut = done > 0 && was_interrupted(wait) && does_wait(descriptor, flags) &&
                  waits_for_others(descriptor);
    errno = error;
    return is_cut;
}

static ssize_t write_some(int descriptor, const void *buffer, size_t bytes)
{
    FIND_NEXT(write);
    return next ? next(descriptor, buffer, bytes)
                : libc_result(CANCELLABLE(SYSCALL_3(SYS_write, descriptor, buffer, bytes)));
}

static ssize_t write_part(const struct wait *wait, int descriptor, struct iovec part, int flags)
{
    return is_stream(descriptor) ? send_part(wait, descriptor, part, flags)
                                 : write_some(descriptor, part.iov_base, part.iov_len);
}

EXPORT ssize_t write(int descriptor, const void *buffer, size_t bytes)
{
    pin_message(buffer, bytes);
    struct wait wait = begin_sending(bytes);
    ssize_t done = write_some(descriptor, buffer, bytes);
    return (size_t)done < bytes && is_cut_short(&wait, descriptor, done, 0)
               ? hand_on_bytes(&wait, descriptor, buffer, bytes, done, 0, write_part)
               : done;
}

ALSO_CALLED(__write, write);

static ssize_t write_parts(int descriptor, const struct iovec *parts, int count)
{
    FIND_NEXT(writev);
    return next ? next(descriptor, parts, count)
                : libc_result(CANCELLABLE(SYSCALL_3(SYS_writev, descriptor, parts, count)));
}

EXPORT ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    pin_parts(parts, (size_t)count);
    struct wait wait = begin_sending(SIZE_MAX);
    ssize_t done = write_parts(descriptor, parts, count);
    return is_cut_short(&wait, descriptor, done, 0)
               ? hand_on_rest(&wait, descriptor, parts, (size_t)count, done, 0, write_part)
               : done;
}

/* The call takes the offset in two words. The second one is used on 32-bit machines only. */
static ssize_t write_parts_at(int descriptor, const struct iovec *parts, int count, off_t at,
                              int flags)
{
    FIND_NEXT(pwritev2);
    return next ? next(descriptor, parts, count, at, flags)
                : libc_result(
                      CANCELLABLE(SYSCALL_6(SYS_pwritev2, descriptor, parts, count, at, 0, flags)));
}

static ssize_t write_part_with_flags(const struct wait *wait, int descriptor, struct iovec part,
                                     int flags)
{
    return is_stream(descriptor) ? send_part(wait, descriptor, part, 0)
                                 : write_parts_at(descriptor, &part, 1, -1, flags);
}

/* At an offset of -1 it is writev, with flags. Others are of files, which no signal interrupts. */
EXPORT ssize_t pwritev2(int descriptor, const struct iovec *parts, int count, off_t at, int flags)
{
    pin_parts(parts, (size_t)count);
    struct wait wait = begin_sending(SIZE_MAX);
    ssize_t done = write_parts_at(descriptor, parts, count, at, flags);
    return at == -1 && !(flags & RWF_NOWAIT) && is_cut_short(&wait, descriptor, done, 0)
               ? hand_on_rest(&wait, descriptor, parts, (size_t)count, done, flags,
                              write_part_with_flags)
               : done;
}

OWN(pwritev2);

EXPORT ssize_t pwritev64v2(int descriptor, const struct iovec *parts, int count, off64_t at,
                           int flags)
{
    return own_pwritev2(descriptor, parts, count, at, flags);
}

static ssize_t send_to(int descriptor, const void *buffer, size_t bytes, int flags,
                       const struct sockaddr *address, socklen_t length)
{
    WAIT_ON_SOCKET(sendto, must_send_again,
                   SYSCALL_6(SYS_sendto, descriptor, buffer, bytes, flags, address, length),
                   descriptor, buffer, bytes, flags, address, length);
}

OWN(send);

/* With an address a message is sent whole, or not at all; but a stream ignores the address. */
EXPORT ssize_t sendto(int descriptor, const void *buffer, size_t bytes, int flags,
                      const struct sockaddr *address, socklen_t length)
{
    if (!address)
        return own_send(descriptor, buffer, bytes, flags);
    pin_message(buffer, bytes);
    struct wait wait = begin_sending(bytes);
    ssize_t done = send_to(descriptor, buffer, bytes, flags, address, length);
    return (size_t)done < bytes && is_cut_short(&wait, descriptor, done, flags) &&
                   is_stream(descriptor)
               ? hand_on_bytes(&wait, descriptor, buffer, bytes, done, flags, send_part)
               : done;
}

EXPORT ssize_t send(int descriptor, const void *buffer, size_t bytes, int flags)
{
    pin_message(buffer, bytes);
    struct wait wait = begin_sending(bytes);
    ssize_t done = send_some(descriptor, buffer, bytes, flags);
    return (size_t)done < bytes && is_cut_short(&wait, descriptor, done, flags)
               ? hand_on_bytes(&wait, descriptor, buffer, bytes, done, flags, send_part)
               : done;
}

ALSO_CALLED(__send, send);

static ssize_t send_message(int descriptor, const struct msghdr *message, int flags)
{
    WAIT_ON_SOCKET(sendmsg, must_send_again, SYSCALL_3(SYS_sendmsg, descriptor, message, flags),
                   descriptor, message, flags);
}

/* What belongs to the message as a whole went with its first bytes. */
static ssize_t send_rest_of_message(struct wait *wait, int descriptor, const struct msghdr *message,
                                    ssize_t done, int flags)
{
    struct msghdr header;
    if (!is_stream(descriptor) || read_program(&header, message, sizeof header) != sizeof header)
        return done;
    return hand_on_rest(wait, descriptor, header.msg_iov, header.msg_iovlen, done, flags,
                        send_part);
}

EXPORT ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    pin_header(message);
    struct wait wait = begin_sending(SIZE_MAX);
    ssize_t done = send_message(descriptor, message, flags);
    return is_cut_short(&wait, descriptor, done, flags)
               ? send_rest_of_message(&wait, descriptor, message, done, flags)
               : done;
}

/* Many messages in one call: what it returns is how many were handed on, the last of them perhaps
 * in part. */

static int send_messages(int descriptor, struct mmsghdr *messages, unsigned count, int flags)
{
    WAIT_ON_SOCKET(sendmmsg, must_send_again,
                   SYSCALL_4(SYS_sendmmsg, descriptor, messages, count, flags), descriptor,
                   messages, count, flags);
}

/* Returns whether the message is whole then. */
static bool complete_message(struct wait *wait, int descriptor, struct mmsghdr *message, int flags)
{
    struct mmsghdr copy;
    if (!is_stream(descriptor) || read_program(&copy, message, sizeof copy) != sizeof copy)
        return true;
    const struct msghdr *header = &copy.msg_hdr;
    ssize_t done = hand_on_rest(wait, descriptor, header->msg_iov, header->msg_iovlen, copy.msg_len,
                                flags, send_part);
    message->msg_len = (unsigned)done;
    return (size_t)done == bytes_of_parts(header->msg_iov, header->msg_iovlen);
}

EXPORT int sendmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags)
{
    if (route_resolve()->allocator->pin)
        for (unsigned i = 0; i < count && i < MOST_PARTS; i++)
            pin_header(&messages[i].msg_hdr);
    struct wait wait = begin_sending(SIZE_MAX);
    int done = send_messages(descriptor, messages, count, flags), more = done;
    while (is_cut_short(&wait, descriptor, more, flags) &&
           complete_message(&wait, descriptor, &messages[done - 1], flags) &&
           (unsigned)done < count) {
        more = send_messages(descriptor, messages + done, count - (unsigned)done, flags);
        done += more > 0 ? more : 0;
    }
    return done;
}

/* Receiving. */

static struct wait begin_receiving(int flags)
{
    bool may_wait = !(flags & MSG_ERRQUEUE) && (flags & MSG_WAITALL || may_have_mark());
    return begin_wait(may_wait, may_have_timeout());
}

static ssize_t receive_from(int descriptor, void *buffer, size_t bytes, int flags,
                            struct sockaddr *address, socklen_t *length)
{
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

static ssize_t receive_message(int descriptor, struct msghdr *message, int flags)
{
    WAIT_ON_SOCKET(recvmsg, must_receive_again, SYSCALL_3(SYS_recvmsg, descriptor, message, flags),
                   descriptor, message, flags);
}

/* How many bytes the call receives before it returns, if neither the end nor an error comes. */
static size_t least_of(int descriptor, size_t bytes, int flags)
{
    size_t mark = flags & MSG_WAITALL ? bytes : mark_of(descriptor);
    return mark < bytes ? mark : bytes;
}

static bool must_receive_more(struct wait *wait, int descriptor, ssize_t done, int flags)
{
    return is_cut_short(wait, descriptor, done, flags) && is_stream(descriptor);
}

/* Whether to receive more of the rest now. Waits until there is some, or urgent data, before which
 * a call ends. A socket with a mark is readable only when the mark is reached, which the rest may
 * be too short for: there the call itself waits. */
static bool may_receive_more(const struct wait *wait, int descriptor)
{
    struct pollfd waited_for = {.fd = descriptor, .events = POLLIN | POLLPRI};
    int unread = 0;
    if (handler_came_last(wait) || mark_of(descriptor) > 1)
        return !handler_came_last(wait);
    if (own_poll(&waited_for, 1, remaining_timeout_ms(wait, descriptor, SO_RCVTIMEO)) <= 0)
        return false;
    if (syscall_failed(SYSCALL_3(SYS_ioctl, descriptor, FIONREAD, &unread)))
        return !(waited_for.revents & POLLERR);
    return unread > 0;
}

/* Whether descriptors have come with the bytes, or were lost for want of room. may_lose: other
 * control data may be lost as well, which no transfer ends for. */
static bool has_rights(struct msghdr *message, bool may_lose)
{
    struct cmsghdr *each = CMSG_FIRSTHDR(message);
    for (; each; each = CMSG_NXTHDR(message, each))
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS)
            return true;
    return !may_lose && message->msg_flags & MSG_CTRUNC;
}

/* Receives what is left of a message up to `least` bytes. given: its header before the first call.
 * told: what the first call has told in it; what comes with the rest replaces that, as the kernel
 * tells what came with the last bytes. */
static ssize_t receive_rest(const struct wait *wait, int descriptor, const struct msghdr *given,
                            struct msghdr *told, ssize_t done, size_t least, int flags)
{
    bool may_lose = given->msg_controllen == 0 || option_of(descriptor, SO_DOMAIN) != AF_UNIX;
    flags |= mark_of(descriptor) > 1 ? 0 : MSG_DONTWAIT;
    while ((size_t)done < least && !has_rights(told, may_lose) &&
           may_receive_more(wait, descriptor)) {
        struct iovec part = rest_of_parts(given->msg_iov, given->msg_iovlen, (size_t)done);
        size_t missing = least - (size_t)done;
        part.iov_len = part.iov_len < missing ? part.iov_len : missing;
        struct msghdr rest = {.msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = given->msg_control,
                              .msg_controllen = given->msg_controllen};
        ssize_t more = receive_message(descriptor, &rest, flags);
        if (more <= 0)
            return done;
        done += more;
        told->msg_flags = rest.msg_flags;
        if (rest.msg_controllen > 0)
            told->msg_controllen = rest.msg_controllen;
    }
    return done;
}

/* Whether a peek that a collection has cut short begins again, from where it began. */
static bool must_peek_again(struct wait *wait, int descriptor, ssize_t done, int flags)
{
    return must_receive_more(wait, descriptor, done, flags) &&
           remaining_timeout_ms(wait, descriptor, SO_RCVTIMEO) != 0;
}

static ssize_t peek_again(struct wait *wait, int descriptor, void *buffer, size_t bytes,
                          ssize_t done, int flags)
{
    for (ssize_t more; must_peek_again(wait, descriptor, done, flags) &&
                       (size_t)done < least_of(descriptor, bytes, flags);
         done = more) {
        more = receive_some(descriptor, buffer, bytes, flags);
        if (more <= 0)
            return done;
    }
    return done;
}

/* After the `done` bytes of a call. Returns what is done then. */
static ssize_t receive_rest_of_bytes(struct wait *wait, int descriptor, void *buffer, size_t bytes,
                                     ssize_t done, int flags)
{
    if (flags & MSG_PEEK)
        return peek_again(wait, descriptor, buffer, bytes, done, flags);
    if (!must_receive_more(wait, descriptor, done, flags))
        return done;
    struct iovec part = {buffer, bytes};
    struct msghdr given = {.msg_iov = &part, .msg_iovlen = 1}, told = {.msg_controllen = 0};
    size_t least = least_of(descriptor, bytes, flags);
    return receive_rest(wait, descriptor, &given, &told, done, least, flags);
}

EXPORT ssize_t recv(int descriptor, void *buffer, size_t bytes, int flags)
{
    struct wait wait = begin_receiving(flags);
    ssize_t done = receive_some(descriptor, buffer, bytes, flags);
    return receive_rest_of_bytes(&wait, descriptor, buffer, bytes, done, flags);
}

OWN(recv);

EXPORT ssize_t recvfrom(int descriptor, void *buffer, size_t bytes, int flags,
                        struct sockaddr *address, socklen_t *length)
{
    if (!address)
        return own_recv(descriptor, buffer, bytes, flags);
    struct wait wait = begin_receiving(flags);
    ssize_t done = receive_from(descriptor, buffer, bytes, flags, address, length);
    return receive_rest_of_bytes(&wait, descriptor, buffer, bytes, done, flags);
}

/* With the header that was given. */
static ssize_t peek_message_again(struct wait *wait, int descriptor, const struct msghdr *given,
                                  struct msghdr *message, ssize_t done, int flags)
{
    size_t bytes = 0;
    while (must_peek_again(wait, descriptor, done, flags) &&
           (bytes = bytes_of_parts(given->msg_iov, given->msg_iovlen)) > 0 &&
           (size_t)done < least_of(descriptor, bytes, flags)) {
        *message = *given;
        done = receive_message(descriptor, message, flags);
    }
    return done;
}

EXPORT ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
    struct wait wait = begin_receiving(flags);
    struct msghdr given;
    bool is_known = wait.ended_waits && read_program(&given, message, sizeof given) == sizeof given;
    ssize_t done = receive_message(descriptor, message, flags);
    if (is_known && flags & MSG_PEEK)
        return peek_message_again(&wait, descriptor, &given, message, done, flags);
    if (!is_known || !must_receive_more(&wait, descriptor, done, flags))
        return done;
    size_t bytes = bytes_of_parts(given.msg_iov, given.msg_iovlen);
    size_t least = least_of(descriptor, bytes, flags);
    return receive_rest(&wait, descriptor, &given, message, done, least, flags);
}

static int receive_messages(int descriptor, struct mmsghdr *messages, unsigned count, int flags,
                            struct timespec *span)
{
    WAIT_ON_SOCKET(recvmmsg, must_receive_again,
                   SYSCALL_5(SYS_recvmmsg, descriptor, messages, count, flags, span), descriptor,
                   messages, count, flags, span);
}

/* A collection may end it early, with the messages that have come. It is not continued: the kernel
 * does not tell how much of the limit is left for the next message, and it shows an error only by
 * consuming it. If a signal ends a call that has messages, Linux stores an error in the socket. The
 * next call would return it, so it is taken away here. (An error of the socket's own that comes
 * just then is taken away with it.) */
EXPORT int recvmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *span)
{
    struct wait wait = begin_wait(!(flags & MSG_WAITFORONE), false);
    int done = receive_messages(descriptor, messages, count, flags, span);
    if (is_cut_short(&wait, descriptor, done, flags) && (unsigned)done < count)
        option_of(descriptor, SO_ERROR);
    return done;
}

/* What receiving is in a program that was compiled with _FORTIFY_SOURCE. */

EXPORT ssize_t __recv_chk(int descriptor, void *buffer, size_t bytes, size_t room, int flags)
{
    if (room < bytes)
        __chk_fail();
    return own_recv(descriptor, buffer, bytes, flags);
}

OWN(recvfrom);

EXPORT ssize_t __recvfrom_chk(int descriptor, void *buffer, size_t bytes, size_t room, int flags,
                              struct sockaddr *address, socklen_t *length)
{
    if (room < bytes)
        __chk_fail();
    return own_recvfrom(descriptor, buffer, bytes, flags, address, length);
}
