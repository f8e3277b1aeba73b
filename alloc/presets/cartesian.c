/* SPDX-License-Identifier: MIT
 *
 * cartesian.c: Stephenson's better fit as published, and under the layers of today.
 */
#include "alloc/presets/define_presets.h"

#include "alloc/policies/cartesian.h"
#include "alloc/presets/size_bins.h"

#define TITLE "better fit in a Cartesian tree (Stephenson, SunOS)"
#define SOURCE "C. J. Stephenson, Fast Fits: New Methods for Dynamic Storage Allocation, 1983"

/* A bin holds blocks by their bytes, header included. The least have 32, so that a shadow byte
 * serves 32; the first bin, of 16, is left out. */
enum { LEAST_BYTES = 32 };

static inline unsigned bin_of(size_t size)
{
    size_t bytes = size + CARTESIAN_HEADER_BYTES;
    return bytes <= LEAST_BYTES ? 0 : size_bin_of(bytes) - 1;
}

static inline size_t bin_request(unsigned bin)
{
    return size_bin_bytes(bin + 1) - CARTESIAN_HEADER_BYTES;
}

static const struct layered_policy layers = {
    .heap = &cartesian_policy,
    .shadow_shift = 5,
    .bins = BINS,
    .largest_binned = SIZE_BINS_LARGEST(BINS) - CARTESIAN_HEADER_BYTES,
    .bin_of = bin_of,
    .bin_request = bin_request,
};

struct cartesian_default_options {
    struct cartesian_options heap;
    struct layered_options layers;
};

static const struct option_description default_options[] = {
    CARTESIAN_OPTIONS(offsetof(struct cartesian_default_options, heap), CARTESIAN_TREE_FAST, true),
    LAYERED_OPTIONS(offsetof(struct cartesian_default_options, layers)),
    CARTESIAN_FIXED_OPTIONS(offsetof(struct cartesian_default_options, heap), LEAST_BYTES),
    {0},
};

static bool default_init(const void *options)
{
    const struct cartesian_default_options *chosen = options;
    return layered_init(&layers, &chosen->heap, &chosen->layers);
}

DEFINE_PRESETS(cartesian, cartesian_options,
               block_alignment_of(((const struct cartesian_options *)options)->alignment));
