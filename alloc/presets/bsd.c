/* SPDX-License-Identifier: MIT
 *
 * bsd.c: Kingsley's heap as published, and under the layers of today.
 */
#include "alloc/presets/historic.h"

#include "alloc/policies/bsd.h"
#include "alloc/layers/classic.h"
#include "alloc/layers/layered.h"

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

void *bsd_default_alloc(size_t size)
{
    return layered_alloc(&layers, size);
}

void bsd_default_free(void *block)
{
    layered_free(&layers, block);
}

static const struct option_description default_options[] = {LAYERED_OPTIONS(0), {0}};

const struct allocator bsd_default = {
    .name = "bsd",
    .preset = "default",
    .preset_title = LAYERED_TITLE,
    .title = TITLE,
    .source = SOURCE,
    .options = default_options,
    .init = default_init,
    .alloc = bsd_default_alloc,
    .free = bsd_default_free,
    LAYERED_FUNCTIONS,
};

static bool init_classic(const void *options)
{
    (void)options;
    return classic_init(&bsd_policy, NULL, BLOCK_ALIGNMENT);
}

const struct allocator bsd_classic = {
    .name = "bsd",
    .preset = "classic",
    .preset_title = CLASSIC_TITLE,
    .title = TITLE,
    .source = SOURCE,
    .init = init_classic,
    CLASSIC_FUNCTIONS,
};
