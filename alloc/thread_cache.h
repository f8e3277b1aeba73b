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

enum { CACHE_BINS = 96 };

struct arena;

struct cache_bin {
    void *head;
    uint32_t room;  /* how many more blocks it may take */
    uint16_t count_limit;
    uint16_t batch; /* how many blocks the next refill asks for; doubles, so that a program that
                       needs few touches few */
};

struct thread_cache {
    struct cache_bin bins[CACHE_BINS];
    struct arena *arena;
    struct thread_cache *next, *previous; /* of all threads' caches */
};

/* The calling thread's cache. Before its first need it is a constant that is empty and has no
 * room, after thread_exit another; so the common path needs no test for either. */
extern __thread struct thread_cache *thread_cache
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

#endif
