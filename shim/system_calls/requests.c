/* SPDX-License-Identifier: MIT
 *
 * requests.c: requests that libc answers later by a signal: aio, lookups of names, message queues.
 *
 * When the request is done, libc queues the signal with the program's value, and forgets it. From
 * then on until the program takes the signal only the kernel has the value: so it is pinned before.
 *
 * mq_notify with attributes for a thread: libc leaves its own copy of the attributes, a block, with
 * the kernel alone. The call's dead stack frame still has the copy's address when it returns, so
 * what that points to is pinned.
 */
#include <aio.h>
#include <mqueue.h>
#include <netdb.h>
#include <signal.h>
#include <stdint.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/kernel.h"
#include "shim/system_calls/next_call.h"
#include "shim/route/route.h"
#include "vm/syscall.h"

/* A static program has libc's own functions: none of them can be found from here. */
#ifdef PIC
/* libc may refuse the call, or ignore the event, without a look at it. */
static void pin_value(const struct sigevent *event)
{
    struct sigevent copy;
    if (event && read_program(&copy, event, sizeof copy) == sizeof copy)
        pin_address(copy.sigev_value.sival_ptr);
}

EXPORT int aio_read(struct aiocb *request)
{
    FIND_NEXT(aio_read);
    pin_value(&request->aio_sigevent);
    return next(request);
}

OWN(aio_read);

EXPORT int aio_read64(struct aiocb64 *request)
{
    return own_aio_read((struct aiocb *)request);
}

EXPORT int aio_write(struct aiocb *request)
{
    FIND_NEXT(aio_write);
    pin_value(&request->aio_sigevent);
    return next(request);
}

OWN(aio_write);

EXPORT int aio_write64(struct aiocb64 *request)
{
    return own_aio_write((struct aiocb *)request);
}

EXPORT int aio_fsync(int operation, struct aiocb *request)
{
    FIND_NEXT(aio_fsync);
    pin_value(&request->aio_sigevent);
    return next(operation, request);
}

OWN(aio_fsync);

EXPORT int aio_fsync64(int operation, struct aiocb64 *request)
{
    return own_aio_fsync(operation, (struct aiocb *)request);
}

EXPORT int lio_listio(int mode, struct aiocb *const requests[], int count, struct sigevent *event)
{
    FIND_NEXT(lio_listio);
    pin_value(event);
    struct aiocb *request;
    for (int i = 0; i < count; i++) {
        if (read_program(&request, &requests[i], sizeof request) != sizeof request)
            break;
        if (request)
            pin_value(&request->aio_sigevent);
    }
    return next(mode, requests, count, event);
}

OWN(lio_listio);

EXPORT int lio_listio64(int mode, struct aiocb64 *const requests[], int count,
                        struct sigevent *event)
{
    return own_lio_listio(mode, (struct aiocb *const *)requests, count, event);
}

EXPORT int getaddrinfo_a(int mode, struct gaicb *requests[], int count, struct sigevent *event)
{
    FIND_NEXT(getaddrinfo_a);
    pin_value(event);
    return next(mode, requests, count, event);
}

_Static_assert(sizeof(struct aiocb) == sizeof(struct aiocb64), "the same on x86-64");

EXPORT int mq_notify(mqd_t queue, const struct sigevent *event)
{
    enum { FRAME_WORDS = 128 }; /* libc's is smaller */
    uintptr_t frame[FRAME_WORDS];
    FIND_NEXT(mq_notify);
    const struct allocator *allocator = route_resolve()->allocator;
    if (event)
        pin_address(event->sigev_value.sival_ptr);
    int result = next(queue, event);
    if (result != 0 || !event || event->sigev_notify != SIGEV_THREAD || !allocator->pin)
        return result;
    /* Copied without a call, which would write there. */
    const uintptr_t *below;
    __asm__ volatile("lea %c1(%%rsp), %0" : "=r"(below) : "i"(-FRAME_WORDS * 8));
    for (int i = 0; i < FRAME_WORDS; i++)
        __asm__ volatile("mov %1, %0" : "=r"(frame[i]) : "m"(below[i]));
    for (int i = 0; i < FRAME_WORDS; i++)
        if (allocator->owns((const void *)frame[i]))
            pin_address((const void *)frame[i]);
    return result;
}
#endif
