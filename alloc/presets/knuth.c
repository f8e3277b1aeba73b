/* SPDX-License-Identifier: MIT
 *
 * knuth.c: boundary-tag first fit as published, and under the layers of today.
 */
#include "alloc/presets/define_presets.h"

#include "alloc/policies/knuth.h"
#include "alloc/presets/size_bins.h"

#define TITLE "boundary-tag first fit with a roving pointer (Knuth, as built by Moraes)"
#define SOURCE "D. E. Knuth, The Art of Computer Programming, vol. 1, 2.5"

static const struct layered_policy layers = {.heap = &knuth_policy, TAGGED_BINS};

struct knuth_default_options {
    struct knuth_options heap;
    struct layered_options layers;
};

static const struct option_description default_options[] = {
    KNUTH_OPTIONS(offsetof(struct knuth_default_options, heap), KNUTH_SEARCH_BINNED, true),
    LAYERED_OPTIONS(offsetof(struct knuth_default_options, layers)),
    KNUTH_FIXED_OPTIONS(offsetof(struct knuth_default_options, heap), KNUTH_END_CHECKED),
    {.key = ""},
};

static bool default_init(const void *options)
{
    const struct knuth_default_options *chosen = options;
    return layered_init(&layers, &chosen->heap, &chosen->layers);
}

DEFINE_PRESETS(knuth, knuth_options,
               block_alignment_of(((const struct knuth_options *)options)->alignment));
