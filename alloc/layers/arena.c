/* SPDX-License-Identifier: MIT
 *
 * arena.c: see arena.h.
 */
#include "alloc/layers/arena.h"

#include "vm/fork_chain.h"
#include "vm/metadata.h"

bool arena_init(struct arena *arena, const struct heap_policy *policy, const void *options)
{
    void *heap = metadata_alloc(policy->heap_bytes);
    if (!heap)
        return false;
    arena->owner.kind = OWNER_ARENA;
    arena->lock = (struct lock)LOCK_INITIALIZER(RANK_ARENA);
    fork_chain_add(&arena->lock);
    area_source_init(&arena->source, &arena->owner);
    policy->init(heap, &arena->source.pages, options);
    arena->heap = heap;
    return true;
}
