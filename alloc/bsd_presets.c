/* SPDX-License-Identifier: MIT
 *
 * bsd_presets.c: Kingsley's heap as published, and under the layers of today.
 */
#include "alloc/bsd_presets.h"

#include "alloc/bsd.h"
#include "alloc/classic.h"
#include "alloc/layered.h"

#define TITLE "powers of two, never merged (Kingsley, 4.2BSD)"
#define SOURCE "C. Kingsley, malloc.c of 4.2BSD, 1982"

/* A bin is a class. */
enum { LARGEST_BINNED_CLASS = 16 };

static unsigned bin_of(size_t size)
{
    return bsd_class_of(size);
}

static size_t bin_request(unsigned bin)
{
    return bsd_usable(bin);
}

/* Of a live header without its seal and state only the class is left: rotated so that what should
 * be zero stands above it, all is checked by one comparison. */
static inline uint64_t class_if_live(const uint64_t *header)
{
    uint64_t word = unsealed(header, *header) - HEADER_LIVE;
    return word >> SEAL_VALUE_SHIFT | word << (64 - SEAL_VALUE_SHIFT);
}

static __attribute__((noinline)) int refuse_to_retire(const void *block)
{
    return bsd_policy.usable_size(NULL, block) > 0 ? RETIRE_UNBINNED : RETIRE_NOT_LIVE;
}

static inline __attribute__((always_inline)) int retire(struct arena *arena, void *block)
{
    (void)arena;
    uint64_t *header = bsd_header(block);
    uint64_t size_class = class_if_live(header);
    if (__builtin_expect(size_class > LARGEST_BINNED_CLASS, 0))
        return refuse_to_retire(block);
    *header = sealed(header, (uint32_t)size_class, HEADER_CACHED);
    return (int)size_class;
}

static void revive(void *block, unsigned bin)
{
    uint64_t *header = bsd_header(block);
    *header = sealed(header, bin, HEADER_LIVE);
}

static const struct layered_policy layers = {
    .heap = &bsd_policy,
    .first_bin = BSD_MIN_CLASS,
    .last_bin = LARGEST_BINNED_CLASS,
    .largest_binned = ((size_t)1 << LARGEST_BINNED_CLASS) - BSD_HEADER_BYTES,
    .bin_of = bin_of,
    .bin_request = bin_request,
    .retire = retire,
    .revive = revive,
};

static bool default_init(const uint64_t *options)
{
    return layered_init(&layers, options, 0);
}

void *bsd_default_alloc(size_t size)
{
    return layered_alloc(&layers, size);
}

void bsd_default_free(void *block)
{
    layered_free(&layers, block);
}

static const struct option_description default_options[] = {LAYERED_OPTIONS, {0}};

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

static bool init_classic(const uint64_t *options)
{
    return classic_init(&bsd_policy, options);
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
