/* SPDX-License-Identifier: MIT
 *
 * ask_collector.h: what the heap asks of the collector on top of it. The heap's lock is not held.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_ASK_COLLECTOR_H
#define ALLOTROPE_ALLOC_BLOCKS_ASK_COLLECTOR_H

#include "alloc/blocks/heap.h"

/* Asks before memory is taken for a slab or a large block. GROW: take it. RETRY: look for free
 * blocks again first. REFUSE: out of memory. The parameters are those of before_growth
 * (blocks.h). */
static inline enum growth ask_collector(size_t alignment, size_t bytes, unsigned tries,
                                        bool exhausted)
{
    if (!blocks_heap.collector)
        return GROW;
    return blocks_heap.collector->before_growth(alignment, bytes, tries, exhausted);
}

/* Runs a collection, or a slice of one, if one is due. True: blocks were freed. */
static inline bool collect_if_due(void)
{
    const struct blocks_collector *collector = blocks_heap.collector;
    return collector && collector->collect_if_due && collector->collect_if_due();
}

/* Whether the collector must see each allocation, so that all go the slow way. */
static inline bool collector_counts(void)
{
    return blocks_heap.collector && blocks_heap.collector->before_allocation;
}

/* Whether the collector asks how many bytes are taken (blocks_taken_bytes). */
static inline bool counts_taken(void)
{
    return blocks_heap.collector && blocks_heap.collector->collect_if_due;
}

static inline void count_taken(size_t bytes)
{
    if (counts_taken())
        atomic_fetch_add_explicit(&blocks_heap.taken_bytes, bytes, memory_order_relaxed);
}

#endif
