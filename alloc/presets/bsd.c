/* SPDX-License-Identifier: MIT
 *
 * bsd.c: Kingsley's heap as published, and under the layers of today (layers/layered.h, which has
 * the options, too).
 */
#include "alloc/presets/define_presets.h"

#include "alloc/policies/bsd.h"

#define TITLE "powers of two, never merged (Kingsley, 4.2BSD)"
#define SOURCE "C. Kingsley, malloc.c of 4.2BSD, 1982"

/* One bin for each class up to 64 KiB. */
enum { LARGEST_BINNED_CLASS = 16 };

static inline unsigned bin_of(size_t size)
{
    return bsd_class_of(size) - BSD_MIN_CLASS;
}

static inline size_t bin_request(unsigned bin)
{
    return bsd_usable(bin + BSD_MIN_CLASS);
}

static const struct layered_policy layers = {
    .heap = &bsd_policy,
    .shadow_shift = 4,
    .bins = LARGEST_BINNED_CLASS - BSD_MIN_CLASS + 1,
    .largest_binned = ((size_t)1 << LARGEST_BINNED_CLASS) - BSD_HEADER_BYTES,
    .bin_of = bin_of,
    .bin_request = bin_request,
};

static bool default_init(const void *options)
{
    return layered_init(&layers, NULL, options);
}

static const struct option_description default_options[] = {LAYERED_OPTIONS(0), {.key = ""}};

DEFINE_PRESETS(bsd, NULL, BLOCK_ALIGNMENT);
