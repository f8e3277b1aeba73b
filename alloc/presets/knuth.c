/* SPDX-License-Identifier: MIT
 *
 * knuth.c: boundary-tag first fit as published, and under the layers of today.
 */
#include "alloc/presets/historic.h"

#include "alloc/layers/classic.h"
#include "alloc/policies/knuth.h"
#include "alloc/layers/layered.h"
#include "alloc/presets/size_bins.h"

#define TITLE "boundary-tag first fit with a roving pointer (Knuth, as built by Moraes)"
#define SOURCE "D. E. Knuth, The Art of Computer Programming, vol. 1, 2.5"
#define CUT                                                                   \
    {                                                                         \
        "cut", "which end of a free block is handed out", 0, 1, 0, knuth_cuts \
    }

#define SEARCH(initial)                                             \
    {                                                               \
        "search", KNUTH_SEARCH_TITLE, 0, 1, initial, knuth_searches \
    }

/* A bin holds blocks by what the program may use of them. */
static inline unsigned bin_of(size_t size)
{
    return size_bin_of(size + !size);
}

static inline size_t bin_request(unsigned bin)
{
    return size_bin_bytes(bin);
}

static const struct layered_policy layers = {
    .heap = &knuth_policy,
    .shadow_shift = 5,
    .bins = BINS,
    .largest_binned = SIZE_BINS_LARGEST(BINS - 1),
    .bin_of = bin_of,
    .bin_request = bin_request,
};

static bool default_init(const uint64_t *options)
{
    uint64_t all[KNUTH_OPTIONS + LAYERED_OPTION_COUNT] = {options[KNUTH_CUT], options[KNUTH_SEARCH],
                                                          options[KNUTH_COUNTERS], true};
    memcpy(&all[KNUTH_OPTIONS], &options[KNUTH_END], LAYERED_OPTION_COUNT * sizeof *options);
    return layered_init(&layers, all, KNUTH_OPTIONS);
}

void *knuth_default_alloc(size_t size)
{
    return layered_alloc(&layers, size);
}

void knuth_default_free(void *block)
{
    layered_free(&layers, block);
}

static const struct option_description default_options[] = {
    CUT, SEARCH(1), COUNTERS_OPTION(1), LAYERED_OPTIONS, {0}};

const struct allocator knuth_default = {
    .name = "knuth",
    .preset = "default",
    .preset_title = LAYERED_TITLE,
    .title = TITLE,
    .source = SOURCE,
    .options = default_options,
    .init = default_init,
    .alloc = knuth_default_alloc,
    .free = knuth_default_free,
    LAYERED_FUNCTIONS,
};

static bool init_classic(const uint64_t *options)
{
    uint64_t all[KNUTH_OPTIONS] = {options[KNUTH_CUT], options[KNUTH_SEARCH],
                                   options[KNUTH_COUNTERS], false};
    return classic_init(&knuth_policy, all);
}

static const struct option_description classic_options[] = {
    CUT, SEARCH(0), COUNTERS_OPTION(0), {0}};

const struct allocator knuth_classic = {
    .name = "knuth",
    .preset = "classic",
    .preset_title = CLASSIC_TITLE,
    .title = TITLE,
    .source = SOURCE,
    .options = classic_options,
    .init = init_classic,
    CLASSIC_FUNCTIONS,
};
