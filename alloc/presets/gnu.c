/* SPDX-License-Identifier: MIT
 *
 * gnu.c: Haertel's hybrid as published, and under the layers of today.
 */
#include "alloc/presets/define_presets.h"

#include "alloc/policies/gnu.h"

#define TITLE "fragments of powers of two in pages, next fit over pages (Haertel)"
#define SOURCE "M. Haertel, malloc of the GNU C library, 1988"

/* A bin for each power of two up to half a page, then four to a doubling, as the heap has parts of
 * pages. Fragments have 32 bytes at least, so that a shadow byte serves 32. */
enum {
    LEAST_LOG = 5,
    FRAGMENT_BINS = GNU_MAX_FRAGMENT_LOG - LEAST_LOG + 1,
    LARGEST_LOG = 15,
    PART_BINS = 4 * (LARGEST_LOG - GNU_MAX_FRAGMENT_LOG),
};

static inline unsigned bin_of(size_t size)
{
    if (size <= (size_t)1 << LEAST_LOG)
        return 0;
    unsigned log = 63 - (unsigned)__builtin_clzll(size - 1);
    if (log < GNU_MAX_FRAGMENT_LOG)
        return log + 1 - LEAST_LOG;
    unsigned quarter = (unsigned)((size - 1) >> (log - 2)) & 3;
    return FRAGMENT_BINS + (log - GNU_MAX_FRAGMENT_LOG) * 4 + quarter;
}

static inline size_t bin_request(unsigned bin)
{
    if (bin < FRAGMENT_BINS)
        return (size_t)1 << (LEAST_LOG + bin);
    unsigned beyond = bin - FRAGMENT_BINS;
    return (size_t)(5 + beyond % 4) << (GNU_MAX_FRAGMENT_LOG - 2 + beyond / 4);
}

static const struct layered_policy layers = {
    .heap = &gnu_policy,
    .shadow_shift = 5,
    .bins = FRAGMENT_BINS + PART_BINS,
    .largest_binned = (size_t)1 << LARGEST_LOG,
    .bin_of = bin_of,
    .bin_request = bin_request,
};

struct gnu_default_options {
    struct gnu_options heap;
    struct layered_options layers;
};

/* A megabyte at the end may stay. If eight pages were returned, as published, a loop that allocates
 * and frees more than that would be a loop of system calls. */
enum { FINAL_FREE_PAGES = (1 << 20) / GNU_PAGE_BYTES };

static const struct option_description default_options[] = {
    GNU_OPTIONS(offsetof(struct gnu_default_options, heap), GNU_CLUSTERS_BINNED, true),
    LAYERED_OPTIONS(offsetof(struct gnu_default_options, layers)),
    GNU_FIXED_OPTIONS(offsetof(struct gnu_default_options, heap), LEAST_LOG, FINAL_FREE_PAGES,
                      true),
    {.key = ""},
};

static bool default_init(const void *options)
{
    const struct gnu_default_options *chosen = options;
    return layered_init(&layers, &chosen->heap, &chosen->layers);
}

DEFINE_PRESETS(gnu, gnu_options, BLOCK_ALIGNMENT);
