/* SPDX-License-Identifier: MIT
 *
 * messages.c: pointers on their way through the kernel: written by one thread, read by another, and
 * for a while nowhere else.
 *
 * Each function pins the blocks that short messages point to (kernel.h), and then is libc's.
 * `write` and its kin for sockets are in transfers.c, which also completes them.
 *
 * A driver may hand a structure back to the program that came with a request, as those for graphics
 * and USB do: so what is given to ioctl is looked at too. One request of ioctl makes pages that a
 * collector must not touch; it is told before.
 */
#include <fcntl.h>
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
#include "shim/system_calls/ended_waits.h"
#include "shim/system_calls/kernel.h"
#include "shim/system_calls/next_call.h"
#include "shim/route/route.h"
#include "vm/syscall.h"

EXPORT ssize_t pwrite(int descriptor, const void *buffer, size_t bytes, off_t at)
{
    FIND_NEXT(pwrite);
    pin_message(buffer, bytes);
    return next ? next(descriptor, buffer, bytes, at)
                : libc_result(CANCELLABLE(SYSCALL_4(SYS_pwrite64, descriptor, buffer, bytes, at)));
}

OWN(pwrite);

EXPORT ssize_t pwrite64(int descriptor, const void *buffer, size_t bytes, off64_t at)
{
    return own_pwrite(descriptor, buffer, bytes, at);
}

ALSO_CALLED(__pwrite64, pwrite);

/* The offset is two words, as for pwritev2 (transfers.c). */

EXPORT ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t at)
{
    FIND_NEXT(pwritev);
    pin_parts(parts, (size_t)count);
    return next ? next(descriptor, parts, count, at)
                : libc_result(CANCELLABLE(SYSCALL_5(SYS_pwritev, descriptor, parts, count, at, 0)));
}

OWN(pwritev);

EXPORT ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t at)
{
    return own_pwritev(descriptor, parts, count, at);
}

EXPORT int eventfd_write(int descriptor, eventfd_t value)
{
    FIND_NEXT(eventfd_write);
    pin_message(&value, sizeof value);
    if (next)
        return next(descriptor, value);
    long written = CANCELLABLE(SYSCALL_3(SYS_write, descriptor, &value, sizeof value));
    return libc_result(written) == sizeof value ? 0 : -1;
}

/* The kernel keeps a socket's name, which may be any bytes, and tells it to whoever asks. */
EXPORT int bind(int descriptor, const struct sockaddr *name, socklen_t bytes)
{
    FIND_NEXT(bind);
    pin_message(name, bytes);
    return next ? next(descriptor, name, bytes)
                : (int)libc_result(SYSCALL_3(SYS_bind, descriptor, name, bytes));
}

EXPORT int mq_timedsend(mqd_t queue, const char *message, size_t bytes, unsigned priority,
                        const struct timespec *limit)
{
    FIND_NEXT(mq_timedsend);
    pin_message(message, bytes);
    return next ? next(queue, message, bytes, priority, limit)
                : (int)libc_result(CANCELLABLE(
                      SYSCALL_5(SYS_mq_timedsend, queue, message, bytes, priority, limit)));
}

EXPORT int mq_send(mqd_t queue, const char *message, size_t bytes, unsigned priority)
{
    FIND_NEXT(mq_send);
    pin_message(message, bytes);
    return next ? next(queue, message, bytes, priority)
                : (int)libc_result(
                      CANCELLABLE(SYSCALL_5(SYS_mq_timedsend, queue, message, bytes, priority, 0)));
}

/* What waits in a queue of System V has its type before it. */
EXPORT int msgsnd(int queue, const void *message, size_t bytes, int flags)
{
    FIND_NEXT(msgsnd);
    pin_message(message, sizeof(long) + bytes);
    struct wait wait = begin_wait(true, false);
    int result;
    do
        result = next ? next(queue, message, bytes, flags)
                      : (int)libc_result(
                            CANCELLABLE(SYSCALL_4(SYS_msgsnd, queue, message, bytes, flags)));
    while (must_begin_again(&wait, result));
    return result;
}

/* How much a pipe takes at once; 0: it is none. */
static size_t room_of_pipe(int descriptor)
{
    long bytes = SYSCALL_3(SYS_fcntl, descriptor, F_GETPIPE_SZ, 0);
    return syscall_failed(bytes) ? 0 : (size_t)bytes;
}

/* The pipe keeps the pages, which the program may unmap. They may be full of pointers. */
static void pin_page_parts(const struct iovec *parts, size_t count, size_t room)
{
    struct message_parts message = {.kept = 0};
    struct iovec part;
    for (size_t i = 0; i < count && room > 0; i++) {
        if (read_program(&part, &parts[i], sizeof part) < sizeof part)
            return;
        size_t bytes = part.iov_len < room ? part.iov_len : room;
        for (size_t at = 0; at < bytes; at += LONGEST_MESSAGE) {
            size_t left = bytes - at;
            pin_part(&message, (const char *)part.iov_base + at,
                     left < LONGEST_MESSAGE ? left : LONGEST_MESSAGE);
        }
        room -= bytes;
    }
}

EXPORT ssize_t vmsplice(int descriptor, const struct iovec *parts, size_t count, unsigned flags)
{
    FIND_NEXT(vmsplice);
    if (route_resolve()->allocator->pin && count <= MOST_PARTS)
        pin_page_parts(parts, count, room_of_pipe(descriptor));
    return next ? next(descriptor, parts, count, flags)
                : libc_result(SYSCALL_4(SYS_vmsplice, descriptor, parts, count, flags));
}

/* Drivers. */

/* Whether the pages of what is asked for may not be touched afterwards. */
static bool makes_pages_fault(unsigned long request)
{
    return (unsigned)request == (unsigned)UFFDIO_REGISTER; /* the kernel looks at no more */
}

/* Some requests take a number where their code promises an address. */
static void pin_argument(unsigned long request, const void *argument)
{
    if (_IOC_DIR(request) & _IOC_WRITE)
        pin_message(argument, _IOC_SIZE(request));
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

static void pin_unbuffered(const void *data, size_t bytes, FILE *stream)
{
    enum { UNBUFFERED = 2 }; /* _IO_UNBUFFERED of glibc */
    if (bytes > 0 && stream->_flags & UNBUFFERED)
        pin_message(data, bytes);
}

/* A static program has libc's own functions: none of them can be found from here. */
#ifdef PIC
EXPORT size_t fwrite(const void *data, size_t size, size_t count, FILE *stream)
{
    FIND_NEXT(fwrite);
    pin_unbuffered(data, size * count, stream);
    return next(data, size, count, stream);
}

ALSO_CALLED(_IO_fwrite, fwrite);

#undef fwrite_unlocked
EXPORT size_t fwrite_unlocked(const void *data, size_t size, size_t count, FILE *stream)
{
    FIND_NEXT(fwrite_unlocked);
    pin_unbuffered(data, size * count, stream);
    return next(data, size, count, stream);
}
#endif
