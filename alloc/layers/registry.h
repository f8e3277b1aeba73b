/* SPDX-License-Identifier: MIT
 *
 * registry.h: the arenas of this process, the caches of its threads, and the policy and the options
 * that all of them have.
 *
 * Arenas live for ever. A thread has a cache from its first need to its exit, and an arena with it.
 * After a fork the caches of threads that the child does not have are orphans. The registry's lock
 * is taken before those of arenas and of the depot.
 */
#ifndef ALLOTROPE_ALLOC_LAYERS_REGISTRY_H
#define ALLOTROPE_ALLOC_LAYERS_REGISTRY_H

#include "alloc/layers/arena.h"
#include "alloc/layers/depot.h"
#include "alloc/layers/layered.h"
#include "alloc/layers/thread_cache.h"

enum { MAX_ARENAS = 64 };

struct registry {
    const struct layered_policy *policy;
    const struct heap_policy *heap; /* that serves the options */
    const void *heap_options;
    _Atomic size_t large_bytes; /* changed by layered_tune, at any time */
    size_t cache_bytes;
    _Atomic bool refused; /* the kernel gave no memory when it was last asked; a hint */
    struct depot depot;   /* between the caches and the arenas */
    struct lock lock;     /* of what follows */
    unsigned arena_limit;
    _Atomic unsigned arena_count; /* read without the lock, too */
    struct arena *arenas[MAX_ARENAS];
    struct thread_cache *caches, *unused_caches;
    unsigned orphans;          /* of the caches: see layered_fork_child */
    uint64_t started, threads; /* that have a cache: ever, and now */
};

extern struct registry registry __attribute__((visibility("hidden")));

static inline const struct heap_policy *heap_policy(void)
{
    return registry.heap;
}

/* Makes the first arena of this policy, with these options. False: out of memory. */
bool registry_init(const struct layered_policy *policy, const void *heap_options,
                   const struct layered_options *options);

/* From now on at most so many arenas are made; 0: twice the processors. */
void registry_limit_arenas(size_t arenas);

/* Gives the calling thread a cache, which has an arena from then on. Not for a thread whose cache
 * is gone already, without memory, or while the heap is frozen: it goes straight to an arena. */
void registry_start_thread(void);

/* The cache of the calling thread, which has none from here on. NULL: it had none. */
struct thread_cache *registry_leave(void);

/* Takes an empty cache out of the registry, for another thread. */
void registry_retire_cache(struct thread_cache *cache);

/* A chain of a bin, from the cache of a thread that the child of a fork does not have. */
struct chain registry_take_from_orphans(unsigned bin);

static inline bool thread_has_cache(void)
{
    return thread_cache->arena != NULL;
}

#endif
