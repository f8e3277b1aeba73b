/* SPDX-License-Identifier: MIT
 *
 * event_pool.h: what the library in a recorded program and `allotrope-events` share while the
 * program runs, and how an event is written. docs/events-format.md describes the file.
 *
 * Shared memory of fixed size: a head, then buffers of words. A thread of the program takes a
 * free buffer, fills it with events and hands it over; the writer, another process, saves it,
 * clears it and sets it free. So nothing is lost with a process that ends by _exit or a signal:
 * what it left in its buffers is all that is not zero. A thread takes no lock, and waits for the
 * writer alone. Where threads are filling every buffer, the events of further threads are lost, and
 * counted. One that gets a buffer later counts as another thread from then on.
 *
 *   writer:   FREE <- FULL            process:   FREE -> FILLING -> FULL
 *
 * An event is one to three words and further frames, if asked for:
 *
 *   63..48 size + 1, or SIZE_BEHIND | 47..3 pointer, in place | 2..0 type
 *   63..48 flags               | 47..0 return address of the call      NEW and RESIZE_TO only
 *   size, where it does not fit; then further return addresses, outwards, flagged the same
 *
 *   63..3 time stamp counter                             | 2..0 type   TIME
 *
 * No word is zero, and none looks like a pointer to a collector. TIME stands at the start of a
 * buffer and again at least once per EVENT_STAMP_WORDS; once a process has a second thread, before
 * each of its events.
 */
#ifndef ALLOTROPE_TRACE_PROTOCOL_EVENT_POOL_H
#define ALLOTROPE_TRACE_PROTOCOL_EVENT_POOL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define EVENT_POOL_MAGIC UINT64_C(0x31474e5254564541)

enum {
    EVENT_POOL_VERSION = 3,
    EVENT_BUFFER_BYTES = 32768,
    EVENT_BUFFER_WORDS = EVENT_BUFFER_BYTES / 8,
    EVENT_BUFFERS = 2048,
    EVENT_PROCESSES = 1024,
    EVENT_PROGRAM_BYTES = 244,
    EVENT_STAMP_WORDS = 256,
    EVENT_MOST_FRAMES = 64, /* the caller included */
};

enum event_type {
    EVENT_TIME = 1,
    EVENT_NEW,         /* a block was handed out: noted after the call */
    EVENT_FREE,        /* a block is given back: noted before the call */
    EVENT_RESIZE_FROM, /* a block may move: noted before the call */
    EVENT_RESIZE_TO,   /* where it is now; pointer 0: the call failed. The same thread's next event
                        * after RESIZE_FROM, TIME apart */
};

#define EVENT_TYPE_MASK UINT64_C(7)
#define EVENT_POINTER_MASK UINT64_C(0xfffffffffff8)
#define EVENT_ADDRESS_MASK UINT64_C(0xffffffffffff)
#define EVENT_SIZE_BEHIND UINT64_C(0xffff)
enum {
    EVENT_HIGH_SHIFT = 48,
    /* The flags of a second word, above the shift. */
    EVENT_FLAG_ALWAYS = 1,     /* so that the word is not zero */
    EVENT_FLAG_ZEROED = 2,     /* calloc */
    EVENT_ALIGNMENT_SHIFT = 2, /* 6 bits: log2 of the alignment asked for; 0: none */
    EVENT_FRAMES_SHIFT = 8,    /* 8 bits: return addresses that follow */
};

enum event_buffer_state { EVENT_BUFFER_FREE, EVENT_BUFFER_FILLING, EVENT_BUFFER_FULL };
enum event_buffer_kind { EVENT_BUFFER_EVENTS, EVENT_BUFFER_MAPS };

struct event_buffer {
    _Atomic uint32_t state;
    _Atomic uint32_t labelled; /* what follows is set */
    uint32_t process;          /* its place in the head */
    uint32_t thread;           /* of the process, from 0 */
    uint32_t tid;              /* the kernel's number of the thread; 0: not known */
    uint32_t kind;             /* MAPS: the text of /proc/self/maps */
    uint32_t bytes;            /* of MAPS, set before FULL; events end where zeros begin */
    uint64_t sequence;         /* of the thread's buffers, from 0 */
};

struct event_process {
    _Atomic uint32_t pid; /* 0: the place is free */
    _Atomic uint32_t threads;
    _Atomic uint32_t ready;            /* what follows is set */
    uint64_t stamp;                    /* time stamp counter when the process joined, ... */
    uint64_t nanoseconds;              /* ... and CLOCK_MONOTONIC at the same moment */
    _Atomic uint64_t lost;             /* events of threads that found no buffer */
    char program[EVENT_PROGRAM_BYTES]; /* its path; "" where it is not known */
};

struct event_pool {
    uint64_t magic;
    uint32_t version;
    uint32_t frames;           /* return addresses noted for each allocation, at least 1 */
    _Atomic uint32_t only;     /* the one process that is recorded; 0: each */
    _Atomic uint32_t declined; /* processes that were not recorded */
    uint32_t writer;           /* its process */
    _Atomic uint32_t freed;    /* futex: goes up as buffers are set free */
    _Atomic uint32_t waiting;  /* threads that wait for it */
    struct event_process process[EVENT_PROCESSES];
    struct event_buffer buffer[EVENT_BUFFERS];
};

#define EVENT_POOL_HEAD_BYTES ((sizeof(struct event_pool) + 4095) / 4096 * 4096)
#define EVENT_POOL_BYTES (EVENT_POOL_HEAD_BYTES + (size_t)EVENT_BUFFERS * EVENT_BUFFER_BYTES)

/* The end of the buffer that a word lies in. */
static inline uint64_t *event_buffer_end(const struct event_pool *pool, const uint64_t *word)
{
    const char *first = (const char *)pool + EVENT_POOL_HEAD_BYTES;
    size_t number = (size_t)((const char *)word - first) / EVENT_BUFFER_BYTES;
    return (uint64_t *)(first + (number + 1) * EVENT_BUFFER_BYTES);
}

static inline uint64_t *event_buffer_words(struct event_pool *pool, uint32_t number)
{
    return (uint64_t *)((char *)pool + EVENT_POOL_HEAD_BYTES + (size_t)number * EVENT_BUFFER_BYTES);
}

#endif
