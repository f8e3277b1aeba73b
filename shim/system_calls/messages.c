/* SPDX-License-Identifier: MIT
 *
 * messages.c: pointers on their way through the kernel: written by one thread, read by another, and
 * for a while nowhere else.
 *
 * Each function is libc's, and then pins the blocks that short messages point to (kernel.h).
 * `write` and its kin for sockets are in waits.c, which also completes them.
 *
 * A driver may hand a structure back to the program that came with a request, as those for graphics
 * and USB do: so what is given to ioctl is looked at too. One request of
 * ioctl makes pages that a collector must not touch; it is told before.
 */
#include <linux/userfaultfd.h>
#include <mqueue.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/kernel.h"
#include "shim/system_calls/next_call.h"
#include "shim/route/route.h"
#include "vm/syscall.h"

EXPORT ssize_t pwrite(int descriptor, const void *buffer, size_t bytes, off_t at)
{
    FIND_NEXT(pwrite);
    ssize_t done = next ? next(descriptor, buffer, bytes, at)
                        : libc_result(SYSCALL_4(SYS_pwrite64, descriptor, buffer, bytes, at));
    pin_message(buffer, done);
    return done;
}

EXPORT ssize_t pwrite64(int descriptor, const void *buffer, size_t bytes, off64_t at)
{
    return pwrite(descriptor, buffer, bytes, at);
}

EXPORT int eventfd_write(int descriptor, eventfd_t value)
{
    return write(descriptor, &value, sizeof value) == sizeof value ? 0 : -1;
}

EXPORT int sendmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags)
{
    FIND_NEXT(sendmmsg);
    int sent = next ? next(descriptor, messages, count, flags)
                    : (int)libc_result(SYSCALL_4(SYS_sendmmsg, descriptor, messages, count, flags));
    for (int i = 0; i < sent; i++)
        pin_parts(messages[i].msg_hdr.msg_iov, messages[i].msg_hdr.msg_iovlen, messages[i].msg_len);
    return sent;
}

EXPORT int mq_timedsend(mqd_t queue, const char *message, size_t bytes, unsigned priority,
                        const struct timespec *limit)
{
    FIND_NEXT(mq_timedsend);
    int result =
        next
            ? next(queue, message, bytes, priority, limit)
            : (int)libc_result(SYSCALL_5(SYS_mq_timedsend, queue, message, bytes, priority, limit));
    pin_message(message, result == 0 ? (ssize_t)bytes : -1);
    return result;
}

EXPORT int mq_send(mqd_t queue, const char *message, size_t bytes, unsigned priority)
{
    FIND_NEXT(mq_send);
    int result =
        next ? next(queue, message, bytes, priority)
             : (int)libc_result(SYSCALL_5(SYS_mq_timedsend, queue, message, bytes, priority, 0));
    pin_message(message, result == 0 ? (ssize_t)bytes : -1);
    return result;
}

/* What waits in a queue of System V has its type before it. */
EXPORT int msgsnd(int queue, const void *message, size_t bytes, int flags)
{
    FIND_NEXT(msgsnd);
    int result = next ? next(queue, message, bytes, flags)
                      : (int)libc_result(SYSCALL_4(SYS_msgsnd, queue, message, bytes, flags));
    pin_message(message, result == 0 ? (ssize_t)(sizeof(long) + bytes) : -1);
    return result;
}

/* The pipe keeps the pages, which the program may unmap. They may be full of pointers. */
static void pin_page_parts(const struct iovec *parts, size_t count, ssize_t bytes)
{
    enum { PIECE = 256, OVERLAP = sizeof(void *) - 1 };
    for (size_t i = 0; i < count && bytes > 0; bytes -= (ssize_t)parts[i++].iov_len)
        for (size_t at = 0; at < parts[i].iov_len && at < (size_t)bytes; at += PIECE - OVERLAP) {
            size_t left = parts[i].iov_len - at;
            pin_message((const char *)parts[i].iov_base + at, left < PIECE ? (ssize_t)left : PIECE);
        }
}

EXPORT ssize_t vmsplice(int descriptor, const struct iovec *parts, size_t count, unsigned flags)
{
    FIND_NEXT(vmsplice);
    ssize_t done = next ? next(descriptor, parts, count, flags)
                        : libc_result(SYSCALL_4(SYS_vmsplice, descriptor, parts, count, flags));
    pin_page_parts(parts, count, done);
    return done;
}

/* Drivers. */

/* Whether the pages of what is asked for may not be touched afterwards. */
static bool makes_pages_fault(unsigned long request)
{
    return request == UFFDIO_REGISTER;
}

/* Whether all of it can be read: on the caller's stack, or in a block. Some requests take a number
 * where their code promises an address. */
static bool is_readable(const void *argument, size_t bytes)
{
    enum { FRAMES_BYTES = 64 << 10 };
    const char *frame = __builtin_frame_address(0), *start = argument;
    const struct allocator *allocator = route_resolve()->allocator;
    return (start > frame && start < frame + FRAMES_BYTES) ||
           (allocator->owns(start) && allocator->usable_size(start) >= bytes);
}

static void pin_argument(unsigned long request, const void *argument)
{
    size_t bytes = _IOC_SIZE(request);
    if (route_resolve()->allocator->pin && bytes >= sizeof(void *) &&
        _IOC_DIR(request) & _IOC_WRITE && is_readable(argument, bytes))
        pin_message(argument, (ssize_t)bytes);
}

EXPORT int ioctl(int descriptor, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    FIND_NEXT(ioctl);
    if (makes_pages_fault(request))
        tell_pages_may_fault();
    pin_argument(request, argument);
    return next ? next(descriptor, request, argument)
                : (int)libc_result(SYSCALL_3(SYS_ioctl, descriptor, request, argument));
}

/* Streams without a buffer. One with a buffer still has there what it has handed on. */

static size_t and_pin(const void *data, size_t size, size_t written, FILE *stream)
{
    enum { UNBUFFERED = 2 }; /* _IO_UNBUFFERED of glibc */
    if (stream->_flags & UNBUFFERED)
        pin_message(data, (ssize_t)(size * written));
    return written;
}

/* A static program has libc's own functions: none of them can be found from here. */
#ifdef PIC
EXPORT size_t fwrite(const void *data, size_t size, size_t count, FILE *stream)
{
    FIND_NEXT(fwrite);
    return and_pin(data, size, next(data, size, count, stream), stream);
}

#undef fwrite_unlocked
EXPORT size_t fwrite_unlocked(const void *data, size_t size, size_t count, FILE *stream)
{
    FIND_NEXT(fwrite_unlocked);
    return and_pin(data, size, next(data, size, count, stream), stream);
}
#endif
