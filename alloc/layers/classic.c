/* SPDX-License-Identifier: MIT
 *
 * classic.c: see classic.h.
 */
#include "alloc/layers/classic.h"

#include <string.h>

#include "alloc/layers/arena.h"
#include "vm/message.h"
#include "vm/granule_map.h"
#include "vm/window.h"

static const struct heap_policy *policy;
static struct arena arena;

bool classic_init(const struct heap_policy *chosen, const void *options)
{
    policy = chosen;
    window_init(0);
    return arena_init(&arena, policy, options);
}

void *classic_alloc(size_t size)
{
    if (size > (size_t)PTRDIFF_MAX)
        return refuse_memory();
    lock_acquire(&arena.lock);
    void *block = policy->alloc(arena.heap, size);
    lock_release(&arena.lock);
    return block ? block : refuse_memory();
}

void *classic_alloc_zeroed(size_t size)
{
    void *block = classic_alloc(size);
    return block ? memset(block, 0, size) : NULL;
}

void *classic_alloc_aligned(size_t alignment, size_t size)
{
    if (alignment <= BLOCK_ALIGNMENT)
        return classic_alloc(size);
    lock_acquire(&arena.lock);
    void *block = policy->alloc_aligned(arena.heap, alignment, size);
    lock_release(&arena.lock);
    return block;
}

void classic_free(void *block)
{
    if (!arena_of(block)) {
        report_pointer_fault("free", block, "not a block of this heap; ignored");
        return;
    }
    lock_acquire(&arena.lock);
    policy->free(arena.heap, block);
    lock_release(&arena.lock);
}

void *classic_resize(void *block, size_t size)
{
    lock_acquire(&arena.lock);
    void *moved = heap_realloc(policy, arena.heap, block, size);
    lock_release(&arena.lock);
    return moved;
}

size_t classic_usable_size(const void *block)
{
    if (!arena_of(block))
        return 0;
    lock_acquire(&arena.lock);
    size_t usable = policy->usable_size(arena.heap, block);
    lock_release(&arena.lock);
    return usable;
}

struct block_waste classic_waste(const void *block)
{
    lock_acquire(&arena.lock);
    struct block_waste waste = policy->waste(arena.heap, block);
    lock_release(&arena.lock);
    return waste;
}

bool classic_owns(const void *address)
{
    return granule_map_get(address) == &arena.owner;
}

void classic_thread_exit(void)
{
}

size_t classic_trim(void)
{
    if (!policy->trim)
        return 0;
    lock_acquire(&arena.lock);
    size_t freed = policy->trim(arena.heap);
    lock_release(&arena.lock);
    return freed;
}

void classic_statistics(struct allocator_statistics *statistics)
{
    *statistics = (struct allocator_statistics){.arenas = 1};
    lock_acquire(&arena.lock);
    policy->statistics(arena.heap, &statistics->heap);
    lock_release(&arena.lock);
}

size_t classic_cached_bytes(void)
{
    return 0;
}

void classic_walk(heap_visitor *visit, void *argument)
{
    lock_acquire(&arena.lock);
    policy->walk(arena.heap, visit, argument);
    lock_release(&arena.lock);
}

bool classic_is_valid(void)
{
    lock_acquire(&arena.lock);
    bool valid = policy->is_valid(arena.heap);
    lock_release(&arena.lock);
    return valid;
}
