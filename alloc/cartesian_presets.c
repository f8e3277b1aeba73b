/* SPDX-License-Identifier: MIT
 *
 * cartesian_presets.c: Stephenson's better fit as published, and under the layers of today.
 */
#include "alloc/historic.h"

#include "alloc/cartesian.h"
#include "alloc/classic.h"
#include "alloc/layered.h"

#define TITLE "better fit in a Cartesian tree (Stephenson, SunOS)"
#define SOURCE "C. J. Stephenson, Fast Fits: New Methods for Dynamic Storage Allocation, 1983"

#define TREE(initial)                                                                     \
    {                                                                                     \
        "tree", "as published, or one that stays shallow", 0, 1, initial, cartesian_trees \
    }

/* One bin for each multiple of 16, less the header. Blocks have 32 bytes at least, so that a byte
 * of state serves 32. */
enum { CARTESIAN_BINS = BINS, LEAST_BYTES = 32 };

static inline unsigned bin_of(size_t size)
{
    size_t least = LEAST_BYTES - CARTESIAN_HEADER_BYTES;
    return size <= least ? 0 : (unsigned)((size - least + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT);
}

static inline size_t bin_request(unsigned bin)
{
    return LEAST_BYTES - CARTESIAN_HEADER_BYTES + bin * (size_t)BLOCK_ALIGNMENT;
}

static const struct layered_policy layers = {
    .heap = &cartesian_policy,
    .shadow_shift = 5,
    .bins = CARTESIAN_BINS,
    .largest_binned =
        LEAST_BYTES - CARTESIAN_HEADER_BYTES + (CARTESIAN_BINS - 1) * (size_t)BLOCK_ALIGNMENT,
    .bin_of = bin_of,
    .bin_request = bin_request,
};

/* The user chooses the tree, the counters and the layers' options; the least block is set here. */
static bool default_init(const uint64_t *options)
{
    uint64_t all[CARTESIAN_OPTIONS + LAYERED_OPTION_COUNT] = {
        options[CARTESIAN_TREE], options[CARTESIAN_COUNTERS], LEAST_BYTES};
    memcpy(&all[CARTESIAN_OPTIONS], &options[CARTESIAN_LEAST],
           LAYERED_OPTION_COUNT * sizeof *options);
    return layered_init(&layers, all, CARTESIAN_OPTIONS);
}

void *cartesian_default_alloc(size_t size)
{
    return layered_alloc(&layers, size);
}

void cartesian_default_free(void *block)
{
    layered_free(&layers, block);
}

static const struct option_description default_options[] = {
    TREE(1), COUNTERS_OPTION(1), LAYERED_OPTIONS, {0}};

const struct allocator cartesian_default = {
    .name = "cartesian",
    .preset = "default",
    .preset_title = LAYERED_TITLE,
    .title = TITLE,
    .source = SOURCE,
    .options = default_options,
    .init = default_init,
    .alloc = cartesian_default_alloc,
    .free = cartesian_default_free,
    LAYERED_FUNCTIONS,
};

static bool init_classic(const uint64_t *options)
{
    uint64_t all[CARTESIAN_OPTIONS] = {options[CARTESIAN_TREE], options[CARTESIAN_COUNTERS],
                                       BLOCK_ALIGNMENT};
    return classic_init(&cartesian_policy, all);
}

static const struct option_description classic_options[] = {TREE(0), COUNTERS_OPTION(0), {0}};

const struct allocator cartesian_classic = {
    .name = "cartesian",
    .preset = "classic",
    .preset_title = CLASSIC_TITLE,
    .title = TITLE,
    .source = SOURCE,
    .options = classic_options,
    .init = init_classic,
    CLASSIC_FUNCTIONS,
};
