/* SPDX-License-Identifier: MIT
 *
 * touches.h: references turned into touches of pages or blocks ("units").
 *
 * A reference touches every unit it overlaps; one that straddles a boundary touches two. A touch
 * of the unit that was touched last changes no LRU order, and is left out of the stream unless
 * it is the first store after a load: every simulator knows its outcome (a hit at distance 0)
 * from the totals. That takes away a third to a half of real references.
 *
 *   touch:  | store 60 | class 59..52 | unit 51..0 |
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_TOUCHES_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_TOUCHES_H

#include <stdbool.h>

#include "analysis/simulate/simulators/reference.h"

#define TOUCH_UNIT_MASK ((1ULL << 52) - 1)
#define TOUCH_STORE (1ULL << 60)
enum { TOUCH_CLASS_SHIFT = 52 };

/* Room that touches_take needs, in touches. It stops as soon as the largest reference might not
 * fit, so a batch is mostly a third of that, and stays in the first-level cache. */
enum { TOUCH_CAPACITY = 6144 };

/* The largest reference, 65535 bytes, over the smallest unit, 16 bytes, touches this many. */
enum { TOUCH_LARGEST_SPAN = 65535 / 16 + 2 };

struct touch_source {
    unsigned shift;   /* log2 of the unit in bytes */
    bool keep_stores; /* whether stores matter to the consumer */
    uint64_t last_unit;
    bool last_was_store;
    uint64_t largest_unit; /* at or above every unit touched so far */
    unsigned class_count;
    uint8_t classes[REFERENCE_CLASSES]; /* met so far: 0, then the others as they came */
    uint64_t bad_address; /* the first address at or above the limit; 0 while there is none */
    struct reference_totals of_class[REFERENCE_CLASSES];
};

static inline uint64_t touch_unit(uint64_t touch)
{
    return touch & TOUCH_UNIT_MASK;
}

static inline unsigned touch_class(uint64_t touch)
{
    return touch >> TOUCH_CLASS_SHIFT & 0xff;
}

static inline unsigned touch_is_store(uint64_t touch)
{
    return touch >> 60 & 1;
}

/* unit_bytes: a power of two, at least 16. */
void touches_init(struct touch_source *source, uint64_t unit_bytes, bool keep_stores);

/* Converts references from *position on, as many as fit, and moves *position behind them.
 * touches: room for TOUCH_CAPACITY. Returns how many were written; they may be none though
 * references were consumed. Stops for good at a bad address, leaving *position at it. */
size_t touches_take(struct touch_source *source, const struct references *references,
                    size_t *position, uint64_t *touches);

/* Makes of `source` what it would be, had it also converted what `later` has, which began afresh
 * behind it. */
void touches_join(struct touch_source *source, const struct touch_source *later);

#endif
