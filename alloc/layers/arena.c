/* SPDX-License-Identifier: MIT
 *
 * arena.c: see arena.h.
 */
#include "alloc/layers/arena.h"

#include <stddef.h>

#include "vm/metadata.h"

static struct arena *arena_of_source(struct page_source *source)
{
    return (struct arena *)((char *)source - offsetof(struct arena, pages));
}

static void *extend(struct page_source *source, size_t bytes)
{
    return area_extend(&arena_of_source(source)->area, bytes);
}

static bool retract(struct page_source *source, size_t bytes)
{
    return area_retract(&arena_of_source(source)->area, bytes);
}

static bool segment(struct page_source *source, size_t index, char **start, char **end)
{
    struct segment found;
    if (!area_segment(&arena_of_source(source)->area, index, &found))
        return false;
    *start = found.start;
    *end = found.end;
    return true;
}

bool arena_init(struct arena *arena, const struct heap_policy *policy, const void *options)
{
    void *heap = metadata_alloc(policy->heap_bytes);
    if (!heap)
        return false;
    arena->owner.kind = OWNER_ARENA;
    arena->lock = (struct lock)LOCK_INITIALIZER(RANK_ARENA);
    arena->pages = (struct page_source){extend, retract, segment};
    area_init(&arena->area, &arena->owner);
    policy->init(heap, &arena->pages, options);
    arena->heap = heap;
    return true;
}
