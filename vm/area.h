/* SPDX-License-Identifier: MIT
 *
 * area.h: a growable stretch of address space in place of sbrk.
 *
 * The historic allocators take their memory from the end of one contiguous stretch that only
 * grows at its end. The real brk cannot be relied on (other code moves it, randomisation and
 * tools limit it), so an area takes extents of the window and moves a break of its own through
 * them:
 *
 *   | handed out ........... | taken |
 *   base                    brk    limit
 *
 * While it is the only area, every extent adjoins the last and the area is one segment; where
 * another has taken the next extent, a new segment begins. A heap must therefore be ready for
 * memory that does not adjoin the last it was given. What the kernel refuses is asked for again
 * by halves. Every granule is entered in the granule map.
 *
 * An area belongs to whoever holds the lock of its heap.
 */
#ifndef ALLOTROPE_VM_AREA_H
#define ALLOTROPE_VM_AREA_H

#include <stdbool.h>
#include <stddef.h>

/* One contiguous run that was handed out: [start, end). */
struct segment {
    char *start, *end;
};

enum { AREA_SEGMENTS = 1024 };

struct area {
    char *base, *brk, *limit;
    bool held;            /* while it is set the area asks the kernel for nothing */
    char *stale_end;      /* up to here lies what a refused discard left above the break */
    void *owner;          /* entered in the granule map */
    size_t bytes;         /* handed out in all segments */
    size_t segment_count; /* finished segments; the current one is [base, brk) */
    struct segment *segments;
};

/* Makes an empty area; takes no memory yet. owner: is entered in the granule map. */
void area_init(struct area *area, void *owner);

/* Moves the break up by `bytes` and returns where it was. The memory between is zero, but for the
 * rest of a page that a retraction has cut. NULL: the kernel refuses, or the area is held and has
 * no room left. Nothing was handed out then. */
void *area_extend(struct area *area, size_t bytes);

/* Moves the break down by `bytes`, at most to the segment's base; contents are given back to the
 * kernel by whole pages. False when the segment is smaller than that. */
bool area_retract(struct area *area, size_t bytes);

/* The index-th segment in the order in which they were begun, the current one included. False
 * behind the last. */
bool area_segment(const struct area *area, size_t index, struct segment *segment);

#endif
