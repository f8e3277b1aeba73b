/* SPDX-License-Identifier: MIT
 *
 * caches_state.h: what the files share that simulate all caches at once.
 *
 *     caches.c           batches, and what was counted
 *     cascade.h          the algorithm
 *     caches_avx512.c    the algorithm with vector instructions
 *     block_names.c      names of 32 bits for blocks whose numbers are longer
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_CACHES_STATE_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_CACHES_STATE_H

#include "analysis/simulate/simulators/caches.h"
#include "analysis/simulate/simulators/touches.h"

enum {
    TAG_LOW_BITS = 5,
    FIRST_NAME = 1 << TAG_LOW_BITS,
    /* The bits of a name that choose the set of the finest cache, in the low bits. */
    CHUNK_SHIFT = TAG_LOW_BITS + CACHES_LEVELS - 1,
    CHUNKS_LARGEST = 1 << (32 - CHUNK_SHIFT),
    CHUNK_TABLE = 2 * CHUNKS_LARGEST,
    /* Dirty levels and depths, 0 to 16. */
    DEPTHS = CACHES_LARGEST_WAYS + 1,
    OUTCOMES = DEPTHS * DEPTHS,
};

static const uint32_t TAG_MASK = ~0U << TAG_LOW_BITS;

struct level {
    uint32_t *recent; /* [sets] */
    uint32_t *stacks; /* [sets][lanes] */
    /* [class][L of the block taken out][depth]. Where there are no stacks, [class][0][1] holds
     * the misses of the direct-mapped cache. */
    uint64_t *outcomes;
    uint64_t displaced_written; /* without stacks: write-backs of the direct-mapped cache */
};

struct caches {
    struct caches_options options;
    struct touch_source source;
    unsigned lanes;      /* ways that a stack holds: 0, 8 or 16 */
    unsigned name_shift; /* zero bits below a block's number in its name */
    const char *error;
    char error_text[160];
    bool renames; /* some block's number is too large for a name */
    struct {
        uint64_t chunk; /* plus one; 0 in a free slot */
        uint32_t number;
    } * chunks; /* of 2^17 blocks; NULL until the first is renamed */
    uint32_t next_number;
    bool number_used[CHUNKS_LARGEST];
    struct level levels[CACHES_LEVELS];
    /* The list that runs through the filters: touches whose low 32 bits are the block's name, or
     * the names only where nothing else matters. */
    uint64_t touches[TOUCH_CAPACITY] __attribute__((aligned(64)));
    uint32_t names[TOUCH_CAPACITY] __attribute__((aligned(64)));
    uint32_t displaced[TOUCH_CAPACITY] __attribute__((aligned(64))); /* | tag 31..5 | written 0 | */
};

/* Sets of the caches of a level; level 0 has the fewest. */
static inline size_t caches_sets(const struct caches *caches, unsigned level)
{
    return (size_t)1 << (caches->options.fewest_sets_log2 + level);
}

/* Notes why there is no result. */
void caches_fail(struct caches *caches, const char *format, uint64_t value);

/* block_names.c: gives each block of the list a name, in the place of its number less FIRST_NAME.
 * False: caches_fail() was called. */
bool caches_name_blocks(struct caches *caches, size_t count);

/* caches_avx512.c: one batch through all levels. */
void caches_run_avx512(struct caches *caches, size_t count);

#endif
