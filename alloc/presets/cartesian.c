/* SPDX-License-Identifier: MIT
 *
 * cartesian.c: Stephenson's better fit as published, and under the layers of today.
 */
#include "alloc/presets/define_presets.h"

#include "alloc/policies/cartesian.h"
#include "alloc/presets/size_bins.h"

#define TITLE "better fit in a Cartesian tree (Stephenson, SunOS)"
#define SOURCE "C. J. Stephenson, Fast Fits: New Methods for Dynamic Storage Allocation, 1983"

static const struct layered_policy layers = {.heap = &cartesian_policy, TAGGED_BINS};

struct cartesian_default_options {
    struct cartesian_options heap;
    struct layered_options layers;
};

static const struct option_description default_options[] = {
    CARTESIAN_OPTIONS(offsetof(struct cartesian_default_options, heap), CARTESIAN_TREE_FAST, true),
    LAYERED_OPTIONS(offsetof(struct cartesian_default_options, layers)),
    CARTESIAN_FIXED_OPTIONS(offsetof(struct cartesian_default_options, heap), TAGGED_LEAST_BYTES),
    {.key = ""},
};

static bool default_init(const void *options)
{
    const struct cartesian_default_options *chosen = options;
    return layered_init(&layers, &chosen->heap, &chosen->layers);
}

DEFINE_PRESETS(cartesian, cartesian_options,
               block_alignment_of(((const struct cartesian_options *)options)->alignment));
