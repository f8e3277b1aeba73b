/* SPDX-License-Identifier: MIT
 *
 * allocations_state.h: what the files share that put a program's allocations in order.
 *
 *     allocations.c       opening, and what each allocation changes
 *     from_trace.c        out of a trace
 *     from_recording.c    out of a recording, whose threads are to be put together
 */
#ifndef ALLOTROPE_TRACE_EVENTS_ALLOCATIONS_STATE_H
#define ALLOTROPE_TRACE_EVENTS_ALLOCATIONS_STATE_H

#include <stdio.h>

#include "trace/events/allocations.h"
#include "trace/events/live_blocks.h"
#include "trace/events/reader.h"
#include "trace/format/reader.h"

struct allocations {
    int fd;
    char error[ALLOCATIONS_ERROR_BYTES];

    struct trace_reader *trace; /* one of these two */
    struct event_reader *events;

    struct live_blocks blocks;

    struct trace_batch batch; /* of a trace */
    size_t at;
    FILE *map_lines; /* as /proc/PID/maps would tell them */
    char *maps;
    size_t maps_length;

    uint32_t
        *waiting; /* of a recording: threads that have events, a priority queue by their stamps */
    uint32_t waiting_count;
    uint32_t *blocked; /* taken from it, since what must come before has not come yet */
    uint32_t blocked_count;
    uint32_t taken; /* the thread of the last event */
    bool any_taken;
    struct live_block *moving; /* [threads]: between RESIZE_FROM and RESIZE_TO */

    struct allocation implied;        /* an allocation before which a free was put in */
    struct live_block implied_before; /* of its object, as it was: it is a resize; else all zero */
    bool has_implied;
    uint64_t now;
    struct allocation_counts counts;
};

/* What happens, in order: each counts it and completes the allocation that is handed out, of which
 * thread, pointer, site, clock and, but of a free, the size are known. When memory is short,
 * `error` says so and they return false. */
bool allocations_note_new(struct allocations *all, struct allocation *allocation);
void allocations_note_free(struct allocations *all, struct allocation *allocation,
                           struct live_block *block);
/* The object of `before`, a block that is live no more, lives on in a new block. */
bool allocations_note_resize(struct allocations *all, struct allocation *allocation,
                             struct live_block before);
/* The new block was handed out while `block`, at its address, seemed live: its free was never seen,
 * and is put in first. before: as of allocations_note_resize; all zero of an object that begins. */
bool allocations_note_lost_free(struct allocations *all, struct allocation *allocation,
                                struct live_block *block, struct live_block before);

/* Adds a live block. When memory is short, `error` says so, and it returns false. */
bool allocations_add(struct allocations *all, struct live_block block);

/* As allocations_next(). */
bool allocations_next_of_trace(struct allocations *all, struct allocation *allocation);
bool allocations_next_of_recording(struct allocations *all, struct allocation *allocation);

/* Opens `fd`. False: `reason`, of EVENT_FILE_ERROR_BYTES, says why. */
bool allocations_open_trace(struct allocations *all, char *reason);
bool allocations_open_recording(struct allocations *all, char *reason);

#endif
