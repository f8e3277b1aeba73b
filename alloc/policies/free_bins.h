/* SPDX-License-Identifier: MIT
 *
 * free_bins.h: which bin holds free blocks of a size, and which bins hold any.
 *
 * Sizes are counted in units (of 16 bytes, of pages: the heap's own). Up to 64 units each size has
 * a bin; beyond, every doubling has eight:
 *
 *   0 1 2 ... 63 | 64-71 72-79 ... 120-127 | 128-143 ... | ... | 15 * 2^26 and more
 *
 * A bin's first size is exact, so every block in a bin that starts at or above a request serves it.
 * The last bin has no end: no larger bin serves a request that falls into it.
 * Only the bin that the request itself falls into can hold both sizes that serve it and sizes that
 * do not. A heap looks at BINNED_SEARCH_LIMIT blocks of that bin at most. Then it goes on to the
 * next bin that is not empty, which a bitmap tells. So a search has a constant bound. How the
 * blocks of a bin hang together is the heap's matter.
 *
 * Source: D. Lea, "A memory allocator", 1996 (bins of exact and of logarithmic width, bitmap);
 * Masmano et al., "TLSF", ECRTS 2004 (the bound).
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_FREE_BINS_H
#define ALLOTROPE_ALLOC_POLICIES_FREE_BINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EXACT_BINS = 64,
    EXACT_BINS_LOG = 6,
    BINS_A_DOUBLING_LOG = 3,
    FREE_BINS = 256,
    FREE_BIN_WORDS = FREE_BINS / 64,
    /* A search looks at this many blocks of a bin at most. The window of 1 TiB has room for 68
     * blocks of the last bin's least size, 15 * 2^26 units of 16 bytes: a search there sees nearly
     * all. */
    BINNED_SEARCH_LIMIT = 64,
};

/* The bin of a block of so many units: the last whose first size is no larger. */
static inline unsigned free_bin_of(size_t units)
{
    if (units < EXACT_BINS)
        return (unsigned)units;
    unsigned log = 63 - (unsigned)__builtin_clzll(units);
    unsigned step =
        (unsigned)(units >> (log - BINS_A_DOUBLING_LOG)) & ((1 << BINS_A_DOUBLING_LOG) - 1);
    unsigned bin = EXACT_BINS + ((log - EXACT_BINS_LOG) << BINS_A_DOUBLING_LOG) + step;
    return bin < FREE_BINS ? bin : FREE_BINS - 1;
}

/* The size, in units, at which a bin starts. */
static inline size_t free_bin_start(unsigned bin)
{
    if (bin < EXACT_BINS)
        return bin;
    unsigned log = EXACT_BINS_LOG + ((bin - EXACT_BINS) >> BINS_A_DOUBLING_LOG);
    size_t step = (bin - EXACT_BINS) & ((1 << BINS_A_DOUBLING_LOG) - 1);
    return ((size_t)1 << log) + (step << (log - BINS_A_DOUBLING_LOG));
}

/* A bit for each bin that is not empty. */
struct free_bin_map {
    uint64_t words[FREE_BIN_WORDS];
};

static inline void free_bin_set(struct free_bin_map *map, unsigned bin)
{
    map->words[bin / 64] |= UINT64_C(1) << bin % 64;
}

static inline void free_bin_clear(struct free_bin_map *map, unsigned bin)
{
    map->words[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

/* The first bin from `bin` on that is not empty; FREE_BINS when none is. */
static inline unsigned free_bin_next(const struct free_bin_map *map, unsigned bin)
{
    if (bin >= FREE_BINS)
        return FREE_BINS;
    uint64_t word = map->words[bin / 64] & ~UINT64_C(0) << bin % 64;
    for (unsigned index = bin / 64;; word = map->words[index]) {
        if (word)
            return index * 64 + (unsigned)__builtin_ctzll(word);
        if (++index == FREE_BIN_WORDS)
            return FREE_BINS;
    }
}

#endif
