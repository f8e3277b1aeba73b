/* SPDX-License-Identifier: MIT
 *
 * drain.h: marks what the words on a mark stack refer to; see drain.c.
 */
#ifndef ALLOTROPE_GC_MARK_DRAIN_H
#define ALLOTROPE_GC_MARK_DRAIN_H

#include <stddef.h>

#include "gc/mark/marker.h"

enum { MOSTLY_IN_A_LINE = 32 }; /* bytes of a block */

static inline void prefetch(const struct referent *referent)
{
    __builtin_prefetch(referent->bits, 1);
    __builtin_prefetch(referent->start);
    if (referent->bytes > MOSTLY_IN_A_LINE)
        __builtin_prefetch(referent->start + referent->bytes - 1);
}

/* Until the marker's stack and ranges are empty: the only marker, one of several. */
void drain_alone(struct marker *marker);
void drain_shared(struct marker *marker);

/* So many words have been pushed above the top. */
static inline void pushed_roots(struct marker *marker, size_t count)
{
    marker->top = with_room(marker, marker->top + count);
    if (!mark.defers_roots && marker->top - marker->stack > (marker->end - marker->stack) / 2)
        drain_alone(marker);
}

#endif
