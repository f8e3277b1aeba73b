/* SPDX-License-Identifier: MIT
 *
 * caches.h: misses and write-backs of every cache of 2^k to 2^(k+12) sets and 1 to 16 ways, in one
 * pass over the references: all-associativity simulation (Hill and Smith 1989). A TLB is such a
 * cache, of few sets, whose blocks are pages.
 *
 * All caches are LRU, write back, allocate on a write miss, and are indexed by the address's low
 * bits. Each stands alone: it sees every reference, as if it were the only cache. A reference
 * that straddles blocks touches each of them, and each touch hits or misses by itself.
 * Write-backs are dirty blocks displaced; what is still dirty at the end is not counted.
 *
 * Sources: Hill and Smith, "Evaluating Associativity in CPU Caches", IEEE TC 38 (1989); Thompson
 * and Smith, "Efficient (Stack) Algorithms for Analysis of Write-Back and Sector Memories", ACM
 * TOCS 7 (1989).
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_CACHES_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_CACHES_H

#include <stdbool.h>

#include "analysis/simulate/simulators/reference.h"

enum {
    CACHES_FEWEST_SETS_LOG2 = 5, /* of caches */
    TLBS_FEWEST_SETS_LOG2 = 2,
    CACHES_LEVELS = 13, /* numbers of sets, each twice the one before */
    CACHES_LARGEST_WAYS = 16,
    CACHES_SMALLEST_BLOCK = 16,
    CACHES_SLICES = 32,
};

struct caches_options {
    uint64_t block_bytes; /* a power of two, 16 to 2^30 */
    unsigned ways;        /* the largest associativity wanted, 1 to 16 */
    bool everything;      /* write-backs and misses by class; otherwise misses alone */
    /* Which of the 32 slices (blocks with the same low five bits of block number: whole sets of
     * every cache) are simulated, as a bit mask: all ones for all. Slices are independent, so
     * several simulators with disjoint masks share the work, and a part is a sample. All where
     * there are caches of fewer than 32 sets. */
    uint32_t slices;
    unsigned fewest_sets_log2; /* 0 to 5 */
};

struct caches;

/* Returns NULL when memory is short. One simulator belongs to one thread at a time. */
struct caches *caches_new(const struct caches_options *options);
void caches_free(struct caches *caches);

/* Takes a batch. Returns false, for good, when it meets a reference it cannot simulate;
 * caches_error then says why. */
bool caches_feed(struct caches *caches, const struct references *references);
/* NULL while all is well. The text belongs to the simulator. */
const char *caches_error(const struct caches *caches);

/* Misses of the cache of 2^sets_log2 sets and `ways` ways among touches of `class`. Without
 * `everything` all misses are of class 0. */
uint64_t caches_misses(const struct caches *caches, unsigned sets_log2, unsigned ways,
                       unsigned class);
/* Write-backs so far; needs `everything`. */
uint64_t caches_write_backs(const struct caches *caches, unsigned sets_log2, unsigned ways);

/* Totals of one class, touches being of blocks. They count every reference fed, whatever slices
 * are simulated. */
struct reference_totals caches_class_totals(const struct caches *caches, unsigned class);

#endif
