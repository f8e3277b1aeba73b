/* SPDX-License-Identifier: MIT
 *
 * thread_cache.h: a thread's own stock of free blocks, by bin.
 *
 * A bin is a list of blocks of one size, linked through their first word. Allocation takes the
 * block that was freed last, freeing puts one back, neither takes a lock. A full list is set aside
 * whole as the bin's reserve, and the reserve before it goes to the depot (depot.h); an empty bin
 * takes its reserve, a chain of the depot, or a batch of blocks from the thread's arena. Two lists,
 * so that a program at the edge of one does not go to the depot for every block. What a cache may
 * keep is bounded.
 *
 * The common path is inline in layered.h; this is its data.
 */
#ifndef ALLOTROPE_ALLOC_LAYERS_THREAD_CACHE_H
#define ALLOTROPE_ALLOC_LAYERS_THREAD_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/layers/shadow_byte.h"
#include "alloc/layers/depot.h"

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
    void *reserve;  /* as many blocks as the capacity, set aside, or none */
} __attribute__((aligned(32)));

static inline uint32_t cache_bin_room(const struct cache_bin *bin)
{
    return bin->allowed - bin->frees;
}

/* Blocks in the list, without the reserve. */
static inline uint32_t cache_bin_count(const struct cache_bin *bin)
{
    return bin->capacity - cache_bin_room(bin);
}

/* Blocks in the list of another thread's bin, without the reserve. The bin may change meanwhile.
 * The counters are read one after the other, so they may be of different moments: their difference
 * may be anything. The result is cut off at 0 and at the capacity. */
static inline uint32_t cache_bin_count_of_other(const struct cache_bin *bin)
{
    int32_t count = (int32_t)cache_bin_count(bin);
    return count < 0 ? 0 : (uint32_t)count < bin->capacity ? (uint32_t)count : bin->capacity;
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

/* Takes the list out, without the reserve. */
static inline struct chain cache_bin_empty(struct cache_bin *bin)
{
    struct chain chain = {.blocks = bin->head, .count = cache_bin_count(bin)};
    bin->head = NULL;
    bin->allowed = bin->frees + bin->capacity;
    return chain;
}

/* Puts a list into an empty bin; it must fit. */
static inline void cache_bin_fill(struct cache_bin *bin, struct chain chain)
{
    bin->head = chain.blocks;
    bin->allowed = bin->frees + bin->capacity - chain.count;
}

/* For a bin whose thread was interrupted between two instructions, and is no more: the list is
 * whole, but the counters may not agree with it. */
static inline void cache_bin_recount(struct cache_bin *bin)
{
    uint32_t count = 0;
    for (void *block = bin->head; block; block = *(void **)block)
        count++;
    bin->allowed = bin->frees + bin->capacity - count;
}

static inline struct chain cache_bin_take_reserve(struct cache_bin *bin)
{
    struct chain chain = {.blocks = bin->reserve, .count = bin->reserve ? bin->capacity : 0};
    bin->reserve = NULL;
    return chain;
}

struct thread_cache {
    struct cache_bin bins[BINS];
    struct arena *arena;
    bool is_orphan; /* of a thread that this process, the child of a fork, does not have */
    struct thread_cache *next, *previous; /* of all threads' caches */
};

/* The calling thread's cache. Before its first need it is one that is always empty and has no
 * room, after thread_exit another; so the common path needs no test for either. */
extern __thread struct thread_cache *thread_cache
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

#endif
