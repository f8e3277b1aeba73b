/* SPDX-License-Identifier: MIT
 *
 * shapes.c: each set is a row of blocks, the most recent first; a touch searches the row and
 * moves its block to the front. Nothing is shared with caches.c, so each checks the other.
 *
 *   entry:  | dirty 63 | block 62..0 |
 */
#include "analysis/simulate/simulators/shapes.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/simulate/simulators/counts.h"

static const uint64_t DIRTY = 1ULL << 63;
static const uint64_t NO_BLOCK = (1ULL << 63) - 1;

const struct shape shapes_named[] = {
    {"zen4-l1d", 64, 64, 8},              /* 32 KiB */
    {"zen5-l1d", 64, 64, 12},             /* 48 KiB, also Intel since Ice Lake */
    {"zen5-l2", 64, 1024, 16},            /* 1 MiB */
    {"ice-lake-server-l2", 64, 1024, 20}, /* 1.25 MiB */
    {"golden-cove-l2", 64, 2048, 10},     /* 1.25 MiB */
    {"raptor-cove-l2", 64, 2048, 16},     /* 2 MiB */
    {"zen5-l3", 64, 32768, 16},           /* 32 MiB, one core complex */
    {"raptor-lake-l3", 64, 49152, 12},    /* 36 MiB, twelve slices */
    {"skylake-dtlb", 4096, 16, 4},        /* 64 pages, also of Ice Lake */
    {"skylake-dtlb-2m", 2 << 20, 8, 4},   /* 32 large pages */
    {"skylake-stlb", 4096, 128, 12},      /* 1,536 pages, the second level */
    {"zen4-dtlb", 4096, 1, 72},           /* 72 pages, fully associative */
    {NULL, 0, 0, 0},
};

struct shape_cache {
    struct shape shape;
    unsigned shift;
    bool straddles_once;
    uint64_t set_mask; /* sets - 1 for a power of two, 0 otherwise */
    uint64_t *entries; /* [sets][ways] */
    uint64_t *misses_of_set;
    uint64_t *misses_of_function;
    struct shape_counts counts;
    struct series windows;
};

struct shape_cache *shape_cache_new(const struct shape *shape, bool straddles_once)
{
    struct shape_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    size_t entries = shape->sets * shape->ways;
    cache->shape = *shape;
    cache->shift = (unsigned)__builtin_ctzll(shape->block_bytes);
    cache->straddles_once = straddles_once;
    cache->set_mask = (shape->sets & (shape->sets - 1)) == 0 ? shape->sets - 1 : 0;
    cache->entries = malloc(entries * sizeof *cache->entries);
    cache->misses_of_set = calloc(shape->sets, sizeof *cache->misses_of_set);
    if (!cache->entries || !cache->misses_of_set) {
        shape_cache_free(cache);
        return NULL;
    }
    for (size_t i = 0; i < entries; i++)
        cache->entries[i] = NO_BLOCK;
    return cache;
}

void shape_cache_free(struct shape_cache *cache)
{
    if (!cache)
        return;
    free(cache->entries);
    free(cache->misses_of_set);
    free(cache->misses_of_function);
    free(cache);
}

static inline uint64_t set_of(const struct shape_cache *cache, uint64_t block)
{
    return cache->set_mask != 0 ? block & cache->set_mask : block % cache->shape.sets;
}

/* Returns whether the touch missed. */
static inline bool touch(struct shape_cache *cache, uint64_t block, bool store)
{
    uint64_t *row = &cache->entries[set_of(cache, block) * cache->shape.ways];
    uint64_t dirty = store ? DIRTY : 0;
    if ((row[0] & ~DIRTY) == block) {
        row[0] |= dirty;
        return false;
    }
    unsigned at = 1;
    while (at < cache->shape.ways && (row[at] & ~DIRTY) != block)
        at++;
    bool missed = at == cache->shape.ways;
    if (missed) {
        at--;
        cache->counts.write_backs += row[at] >> 63;
    } else {
        dirty |= row[at] & DIRTY;
    }
    memmove(row + 1, row, at * sizeof *row);
    row[0] = block | dirty;
    return missed;
}

static bool count_function(struct shape_cache *cache, uint32_t function)
{
    if (!counts_reach(&cache->misses_of_function, &cache->counts.functions, 256, function))
        return false;
    cache->misses_of_function[function]++;
    return true;
}

static bool count_miss(struct shape_cache *cache, const struct references *references, size_t i,
                       uint64_t block)
{
    struct shape_counts *counts = &cache->counts;
    counts->misses++;
    counts->misses_of_class[references->reference[i].class]++;
    if (references->region)
        counts->misses_of_region[references->reference[i].class][references->region[i]]++;
    cache->misses_of_set[set_of(cache, block)]++;
    if (references->window)
        series_add(&cache->windows, references->window[i], 1);
    return count_function(cache, references->reference[i].function);
}

bool shape_cache_feed(struct shape_cache *cache, const struct references *references)
{
    for (size_t i = 0; i < references->count; i++) {
        const struct reference *reference = &references->reference[i];
        uint64_t address = reference->address;
        if (address >= REFERENCE_ADDRESS_LIMIT)
            return false;
        uint64_t last = (address + reference->size - (reference->size != 0)) >> cache->shift;
        bool counted = false;
        for (uint64_t block = address >> cache->shift; block <= last; block++) {
            bool missed = touch(cache, block, reference->kind == REFERENCE_STORE);
            if (missed && !(counted && cache->straddles_once)) {
                counted = true;
                if (!count_miss(cache, references, i, block))
                    return false;
            }
        }
    }
    return true;
}

struct series *shape_cache_windows(struct shape_cache *cache)
{
    return &cache->windows;
}

const struct shape_counts *shape_cache_counts(struct shape_cache *cache)
{
    cache->counts.misses_of_set = cache->misses_of_set;
    cache->counts.misses_of_function = cache->misses_of_function;
    return &cache->counts;
}
