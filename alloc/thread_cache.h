/* SPDX-License-Identifier: MIT
 *
 * thread_cache.h: a thread's own stock of free blocks, by bin.
 *
 * A bin is a list of blocks of one size, linked through their first word. Allocation takes the
 * block that was freed last, freeing puts one back, neither takes a lock. A bin that is empty is
 * refilled from the thread's arena and one that is full gives half to the arenas that own the
 * blocks, several under one lock. What a cache may keep is bounded.
 *
 * The common path is inline in layered.h; this is its data.
 */
#ifndef ALLOTROPE_ALLOC_THREAD_CACHE_H
#define ALLOTROPE_ALLOC_THREAD_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "alloc/block_state.h"

struct arena;

/* What a bin holds is counted by two counters, so that an allocation changes one and a free the
 * other: a single one would be a chain of two dependent memory updates for every pair. Both wrap.
 * The bin is full when they are equal, and may take `allowed - frees` more blocks. */
struct cache_bin {
    void *head;
    uint32_t frees;   /* blocks ever put in */
    uint32_t allowed; /* how many may have been: capacity + blocks ever taken out */
    uint32_t capacity;
    uint32_t batch; /* how many blocks the next refill asks for; doubles, so that a program that
                       needs few touches few */
} __attribute__((aligned(32)));

static inline uint32_t cache_bin_room(const struct cache_bin *bin)
{
    return bin->allowed - bin->frees;
}

static inline uint32_t cache_bin_count(const struct cache_bin *bin)
{
    return bin->capacity - cache_bin_room(bin);
}

/* Needs room. */
static inline void cache_bin_put(struct cache_bin *bin, void *block)
{
    bin->frees++;
    *(void **)block = bin->head;
    bin->head = block;
}

/* NULL when the bin is empty. */
static inline void *cache_bin_take(struct cache_bin *bin)
{
    void *block = bin->head;
    if (__builtin_expect(block != NULL, 1)) {
        bin->head = *(void **)block;
        bin->allowed++;
    }
    return block;
}

/* Takes everything out, as a list. */
static inline void *cache_bin_empty(struct cache_bin *bin)
{
    void *list = bin->head;
    bin->head = NULL;
    bin->allowed = bin->frees + bin->capacity;
    return list;
}

struct thread_cache {
    struct cache_bin bins[BINS];
    struct arena *arena;
    struct thread_cache *next, *previous; /* of all threads' caches */
};

/* The calling thread's cache. Before its first need it is a constant that is empty and has no
 * room, after thread_exit another; so the common path needs no test for either. */
extern __thread struct thread_cache *thread_cache
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

#endif
