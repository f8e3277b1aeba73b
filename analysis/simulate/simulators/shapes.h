/* SPDX-License-Identifier: MIT
 *
 * shapes.h: one cache of any shape, simulated by itself and told in detail.
 *
 * For numbers of sets that are no power of two, for more than 16 ways, and for what the
 * simulation of all sizes does not tell: misses by set, by function and by region. The same
 * rules hold (caches.h), with one choice more: a straddling reference that misses in both blocks
 * may count as one miss, as cachegrind counts.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_SHAPES_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_SHAPES_H

#include <stdbool.h>

#include "analysis/simulate/simulators/reference.h"
#include "analysis/simulate/simulators/series.h"

enum { SHAPES_LARGEST_BLOCK = 1 << 30 };

struct shape {
    const char *name;
    uint64_t block_bytes; /* a power of two, at least 16 */
    uint64_t sets;        /* block number modulo this is the set; below 2^32 */
    unsigned ways;        /* 1 to 1024 */
};

/* Data caches and TLBs of today's processors, ended by one without a name. Those that hash
 * addresses to sets are simulated with plain modulo indexing. */
extern const struct shape shapes_named[];

struct shape_cache;

struct shape_counts {
    uint64_t misses;
    uint64_t write_backs;
    uint64_t misses_of_class[REFERENCE_CLASSES];
    uint64_t misses_of_region[REFERENCE_CLASSES][REFERENCE_REGIONS]; /* 0 where not known */
    const uint64_t *misses_of_set;                                   /* [sets] */
    const uint64_t *misses_of_function;
    size_t functions; /* length of misses_of_function */
};

/* straddles_once: see above. Returns NULL when memory is short. */
struct shape_cache *shape_cache_new(const struct shape *shape, bool straddles_once);
void shape_cache_free(struct shape_cache *cache);

/* Takes a batch. Returns false when an address is no user's, or memory is short. */
bool shape_cache_feed(struct shape_cache *cache, const struct references *references);
/* Misses by window of time, where the batches tell windows. */
struct series *shape_cache_windows(struct shape_cache *cache);
/* Belongs to the cache, and is current until the next batch. */
const struct shape_counts *shape_cache_counts(struct shape_cache *cache);

#endif
