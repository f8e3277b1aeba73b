/* SPDX-License-Identifier: MIT
 *
 * timeline.c: see timeline.h.
 */
#include "shim/observers/timeline.h"

enum { FIRST_INTERVAL_NS = 1000000, COST_SHARE = 10 };

static void thin_out(struct timeline *timeline)
{
    for (size_t i = 0; i < TIMELINE_POINTS / 2; i++)
        timeline->points[i] = timeline->points[2 * i];
    timeline->count = TIMELINE_POINTS / 2;
    timeline->interval *= 2;
}

void timeline_add(struct timeline *timeline, const struct timeline_point *point, uint64_t finished)
{
    if (timeline->interval == 0)
        timeline->interval = FIRST_INTERVAL_NS;
    if (timeline->count == TIMELINE_POINTS)
        thin_out(timeline);
    timeline->points[timeline->count++] = *point;
    uint64_t cost = finished - point->nanoseconds;
    uint64_t wait = COST_SHARE * cost;
    timeline->due = finished + (wait > timeline->interval ? wait : timeline->interval);
}
