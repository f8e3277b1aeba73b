/* SPDX-License-Identifier: MIT
 *
 * helpers.h: several markers; see helpers.c.
 */
#ifndef ALLOTROPE_GC_MARK_HELPERS_H
#define ALLOTROPE_GC_MARK_HELPERS_H

#include "gc/mark/marker.h"

enum {
    MOST_MARKERS = 16,
    SHARE_LEAST = 16,  /* words on a stack of which half may be shared */
    SHARE_MOST = 8192, /* words put into the pool at once */
    POOL_WORDS = 2 * SHARE_MOST,
};

static inline bool should_share(const struct marker *marker)
{
    return marker->top - marker->stack >= SHARE_LEAST &&
           atomic_load_explicit(&mark.idle, memory_order_relaxed) > 0;
}

/* Puts a part of the stack into the pool. */
void helpers_share(struct marker *marker);

/* Marks until nothing is left. Returns how many markers worked. */
unsigned helpers_drain(unsigned helpers);

#endif
