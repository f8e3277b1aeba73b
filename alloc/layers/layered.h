/* SPDX-License-Identifier: MIT
 *
 * layered.h: a policy heap under the layers of today: the default preset of every historic
 * allocator.
 *
 *     size ≤ largest bin    the thread's cache, no lock          thread_cache.h
 *                           what it lacks: the depot             depot.h
 *     size < large          the thread's arena, under its lock   arena.h
 *     otherwise             a mapping of its own                 large.h
 *
 * Its options (`arenas`, `cache`, `large`) are the rows of LAYERED_OPTIONS below.
 *
 * The common path is here, inline; a preset's file instantiates it with a constant
 * layered_policy, which the compiler folds into it, so that composing costs no call. The rest is
 * in layered.c and the same for all. The shadow byte of a pointer tells what it is (shadow_byte.h).
 * A pointer that is freed twice, was never handed out or points into a block is found out at once,
 * before the policy is asked or the block touched.
 */
#ifndef ALLOTROPE_ALLOC_LAYERS_LAYERED_H
#define ALLOTROPE_ALLOC_LAYERS_LAYERED_H

#include "alloc/allocator.h"
#include "alloc/layers/arena.h"
#include "alloc/layers/shadow_byte.h"
#include "alloc/layers/thread_cache.h"

struct layered_policy {
    const struct heap_policy *heap;
    /* 4, or 5 if two payloads of the heap never start less than 32 bytes apart. */
    unsigned shadow_shift;
    unsigned bins;         /* at most BINS */
    size_t largest_binned; /* the largest request that the last bin serves */
    /* The bin that serves requests of `size` bytes, at most largest_binned. */
    unsigned (*bin_of)(size_t size);
    /* The largest request that a bin serves: what its blocks hold at least, and what is asked of
     * the heap for one. Increases with the bin. */
    size_t (*bin_request)(unsigned bin);
};

struct layered_options {
    uint64_t arenas, cache_bytes, large_bytes;
};

/* Rows of a preset's table. */
enum { LARGE_LEAST = 65536, LARGE_MOST = 1 << 30 };
#define LAYERED_OPTIONS(at)                                                                 \
    {"arenas", "arenas that threads share; 0: twice the processors",                        \
     NUMBER_IN(at, struct layered_options, arenas), .maximum = 64, .initial = 0},           \
        {"cache", "bytes of free blocks that a thread may keep, and all of them in common", \
         NUMBER_IN(at, struct layered_options, cache_bytes), .maximum = 1 << 30,            \
         .initial = 1 << 20},                                                               \
    {                                                                                       \
        "large", "bytes from which a block is a mapping of its own",                        \
            NUMBER_IN(at, struct layered_options, large_bytes),                             \
            .minimum = LARGE_LEAST, .maximum = LARGE_MOST, .initial = 1 << 18               \
    }

/* Makes `policy` the one that the functions below serve. heap_options: of each arena's heap. The
 * pointer is kept. */
bool layered_init(const struct layered_policy *policy, const void *heap_options,
                  const struct layered_options *options);

void *layered_alloc_slowly(size_t size);
void layered_free_slowly(void *block);
/* For a block that is already marked cached and whose bin is full. */
void layered_free_to_full_bin(void *block, unsigned bin);

/* As struct allocator says. */
void *layered_alloc_zeroed(size_t size);
void *layered_alloc_aligned(size_t alignment, size_t size);
void *layered_resize(void *block, size_t size);
size_t layered_usable_size(const void *block);
struct block_waste layered_waste(const void *block);
bool layered_owns(const void *address);
void layered_fork_child(void);
void layered_thread_exit(void);
size_t layered_trim(void);
void layered_statistics(struct allocator_statistics *statistics);
size_t layered_cached_bytes(void);
void layered_walk(heap_visitor *visit, void *argument);
bool layered_is_valid(void);
void layered_tune(enum tuning parameter, size_t value);

#define LAYERED_TITLE "with arenas, thread caches and large blocks mapped one by one"

/* All of struct allocator that is the same for every policy. */
#define LAYERED_FUNCTIONS                                                                         \
    .alloc_zeroed = layered_alloc_zeroed, .alloc_aligned = layered_alloc_aligned,                 \
    .resize = layered_resize, .usable_size = layered_usable_size, .waste = layered_waste,         \
    .owns = layered_owns, .fork_child = layered_fork_child, .thread_exit = layered_thread_exit,   \
    .trim = layered_trim, .statistics = layered_statistics, .cached_bytes = layered_cached_bytes, \
    .walk = layered_walk, .is_valid = layered_is_valid, .tune = layered_tune

/* A block that the thread's cache holds, live from here on; NULL: none. */
static inline __attribute__((always_inline)) void *layered_take_cached(
    const struct layered_policy *policy, unsigned bin)
{
    void *block = cache_bin_take(&thread_cache->bins[bin]);
    if (__builtin_expect(block != NULL, 1)) {
        size_t unit = window_unit(block);
        *window_shadow(unit, policy->shadow_shift) = shadow_live(bin, unit, policy->shadow_shift);
    }
    return block;
}

static inline __attribute__((always_inline)) void *layered_alloc(
    const struct layered_policy *policy, size_t size)
{
    if (__builtin_expect(size <= policy->largest_binned, 1)) {
        void *block = layered_take_cached(policy, policy->bin_of(size));
        if (__builtin_expect(block != NULL, 1))
            return block;
    }
    return layered_alloc_slowly(size);
}

static inline __attribute__((always_inline)) void layered_free(const struct layered_policy *policy,
                                                               void *block)
{
    size_t unit = window_unit(block);
    if (__builtin_expect(window_holds(unit), 1)) {
        uint8_t *shadow = window_shadow(unit, policy->shadow_shift);
        unsigned bin = shadow_bin(*shadow, unit, policy->shadow_shift);
        if (__builtin_expect(bin < policy->bins, 1)) {
            struct cache_bin *cache_bin = &thread_cache->bins[bin];
            *shadow = 0;
            if (__builtin_expect(cache_bin_room(cache_bin) == 0, 0))
                layered_free_to_full_bin(block, bin);
            else
                cache_bin_put(cache_bin, block);
            return;
        }
    }
    layered_free_slowly(block);
}

#endif
