/* SPDX-License-Identifier: MIT
 *
 * timeline.h: a record in bounded memory of how a heap grows in a run of any length.
 *
 * It holds points, an interval apart. When it is full, every second point goes and the interval
 * doubles.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_TIMELINE_H
#define ALLOTROPE_SHIM_OBSERVERS_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIMELINE_POINTS = 512 };

struct timeline_point {
    uint64_t nanoseconds; /* since the start */
    uint64_t requested, mapped, resident;
    uint64_t collections, minor_collections, pause_ns; /* until then; 0 without a collector */
};

/* All zero is an empty one. */
struct timeline {
    size_t count;
    uint64_t interval; /* between points, nanoseconds */
    uint64_t due;      /* when the next point is, nanoseconds since the start */
    struct timeline_point points[TIMELINE_POINTS];
};

/* Whether it is time for a point. */
static inline bool timeline_is_due(const struct timeline *timeline, uint64_t nanoseconds)
{
    return nanoseconds >= timeline->due;
}

/* Adds a point, whose measurement ended at `finished`. The next one is due after the interval, and
 * not before ten times what this one took: points cost a tenth of the time at most. */
void timeline_add(struct timeline *timeline, const struct timeline_point *point, uint64_t finished);

#endif
