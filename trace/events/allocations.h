/* SPDX-License-Identifier: MIT
 *
 * allocations.h: what a program allocated, resized and freed, in order, from a recording of
 * `allotrope events` or from a trace of `allotrope record`.
 *
 * Objects are numbered from 0 in the order of their allocation; a resize continues an object. The
 * threads of a recording are put together by their time stamps, and where these are too coarse by
 * what must be: a block is handed out only after it was given back, and given back only after it
 * was handed out. What cannot be (a free of a block from before the recording) is left out and
 * counted.
 */
#ifndef ALLOTROPE_TRACE_EVENTS_ALLOCATIONS_H
#define ALLOTROPE_TRACE_EVENTS_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

enum allocation_type { ALLOCATION_NEW, ALLOCATION_FREE, ALLOCATION_RESIZE };

struct allocation {
    uint32_t type;
    uint32_t thread;
    uint64_t object;
    uint64_t pointer;  /* of FREE: that was given back */
    uint64_t size;     /* bytes asked for; of FREE: those of the object */
    uint64_t site;     /* return address of the call; 0: not known */
    uint64_t clock;    /* see allocations_clock() */
    uint64_t bytes;    /* allocated before it: the sizes of all NEW and RESIZE */
    uint8_t alignment; /* log2 of what was asked for; 0: nothing */
    bool zeroed;
    const uint64_t *frames; /* further return addresses, valid until the next */
    uint32_t frame_count;
};

struct allocation_counts {
    uint64_t objects, frees, resizes;
    uint64_t bytes;
    uint64_t live_objects, live_bytes;           /* now */
    uint64_t most_live_objects, most_live_bytes; /* at one time */
    uint64_t unknown_frees;                      /* of blocks that nobody was given: left out */
    uint64_t lost_frees; /* blocks handed out again without a free: it was put in */
    uint32_t threads;
};

struct allocations;

enum { ALLOCATIONS_ERROR_BYTES = 512 };

/* path: "-" is standard input, for traces. NULL: error, of ALLOCATIONS_ERROR_BYTES, says why. */
struct allocations *allocations_open(const char *path, char *error);
void allocations_close(struct allocations *allocations);

/* The next one; false at the end, and where the file is damaged or cut: what came before is
 * sound, and allocations_error() tells. */
bool allocations_next(struct allocations *allocations, struct allocation *allocation);
const char *allocations_error(const struct allocations *allocations);

/* "nanoseconds" since the recording began, or "instructions". */
const char *allocations_clock(const struct allocations *allocations);
/* The clock at the last that was read. */
uint64_t allocations_now(const struct allocations *allocations);
const struct allocation_counts *allocations_counts(const struct allocations *allocations);
/* JSON objects; "" where there is none. */
const char *allocations_description(const struct allocations *allocations);
const char *allocations_end(const struct allocations *allocations);
/* Lines as of /proc/PID/maps: of a recording that very text, of a trace the files alone. Current
 * until the next allocation. */
const char *allocations_maps(const struct allocations *allocations);

#endif
