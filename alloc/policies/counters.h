/* SPDX-License-Identifier: MIT
 *
 * counters.h: what a searching heap counts of its own work.
 *
 * The published algorithms keep no such counters, so the classic presets leave them off unless
 * asked: then a trace shows no reference that the original lacks.
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_COUNTERS_H
#define ALLOTROPE_ALLOC_POLICIES_COUNTERS_H

#include "alloc/heap.h"

struct counters {
    bool on;
    uint64_t splits, merges, searches;
    uint64_t search_lengths[16];
};

#define COUNTERS_OPTION(at, structure, initial_counters)                                      \
    {                                                                                         \
        "counters", "counts searches, splits and merges", SWITCH_IN(at, structure, counters), \
            .initial = (initial_counters)                                                     \
    }

static inline void count_split(struct counters *counters)
{
    if (counters->on)
        counters->splits++;
}

static inline void count_merge(struct counters *counters)
{
    if (counters->on)
        counters->merges++;
}

/* length: how many blocks were looked at. A search of none is no search. */
static inline void count_search(struct counters *counters, uint64_t length)
{
    if (!counters->on || length == 0)
        return;
    unsigned power = 63 - (unsigned)__builtin_clzll(length);
    counters->searches++;
    counters->search_lengths[power < 15 ? power : 15]++;
}

static inline void add_counters(struct heap_statistics *statistics, const struct counters *counters)
{
    statistics->splits += counters->splits;
    statistics->merges += counters->merges;
    statistics->searches += counters->searches;
    for (unsigned i = 0; i < 16; i++)
        statistics->search_lengths[i] += counters->search_lengths[i];
}

#endif
