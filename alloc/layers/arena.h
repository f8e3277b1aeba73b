/* SPDX-License-Identifier: MIT
 *
 * arena.h: a policy heap with a lock and an area of its own.
 *
 * Several arenas keep threads out of each other's way. A thread is given the arena with the
 * fewest threads at its first need; a block goes back to the arena that it came from, whoever
 * frees it.
 */
#ifndef ALLOTROPE_ALLOC_LAYERS_ARENA_H
#define ALLOTROPE_ALLOC_LAYERS_ARENA_H

#include "alloc/area_source.h"
#include "alloc/heap.h"
#include "vm/owner.h"
#include "vm/lock.h"
#include "vm/granule_map.h"

struct arena {
    struct owner owner;
    struct lock lock;
    void *heap; /* state of the policy */
    struct area_source source;
    uint32_t threads; /* under the registry's lock */
};

/* Makes an arena ready, for ever. options: the heap's. Before there is a second thread, or under
 * the registry's lock: fork takes the arena's lock from here on. False: out of memory. */
bool arena_init(struct arena *arena, const struct heap_policy *policy, const void *options);

/* The arena that holds an address, NULL when none does. */
static inline struct arena *arena_of(const void *address)
{
    struct owner *owner = granule_map_get(address);
    return owner && owner->kind == OWNER_ARENA ? (struct arena *)owner : NULL;
}

#endif
