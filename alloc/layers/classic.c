/* SPDX-License-Identifier: MIT
 *
 * classic.c: see classic.h.
 */
#include "alloc/layers/classic.h"

#include <string.h>

#include "alloc/fork_block.h"
#include "alloc/layers/arena.h"
#include "vm/deferred.h"
#include "vm/freeze.h"
#include "vm/message.h"
#include "vm/granule_map.h"
#include "vm/window.h"

static const struct heap_policy *policy;
static struct arena arena;
static size_t plain_alignment; /* of what policy->alloc returns */

bool classic_init(const struct heap_policy *chosen, const void *options, size_t alignment)
{
    policy = heap_policy_for(chosen, options);
    plain_alignment = alignment;
    window_init(0);
    fork_blocks_init();
    return arena_init(&arena, policy, options);
}

void *classic_alloc(size_t size)
{
    if (size > (size_t)PTRDIFF_MAX)
        return refuse_memory();
    void *block;
    if (__builtin_expect(lock_enter(&arena.lock), 1)) {
        block = policy->alloc(arena.heap, size);
        lock_release(&arena.lock);
    } else {
        block = fork_block_alloc_then_end(BLOCK_ALIGNMENT, size);
    }
    return block ? block : refuse_memory();
}

void *classic_alloc_zeroed(size_t size)
{
    void *block = classic_alloc(size);
    return block ? memset(block, 0, size) : NULL;
}

void *classic_alloc_aligned(size_t alignment, size_t size)
{
    if (alignment <= plain_alignment)
        return classic_alloc(size);
    if (!lock_enter(&arena.lock))
        return fork_block_alloc_then_end(alignment, size);
    void *block = policy->alloc_aligned(arena.heap, alignment, size);
    lock_release(&arena.lock);
    return block;
}

static __attribute__((noinline)) void free_elsewhere(void *block)
{
    struct fork_block *fork_block = fork_block_at(block);
    if (fork_block)
        fork_block_free(fork_block, block);
    else
        report_pointer_fault("free", block, "not a block of this heap; ignored");
}

static void free_deferred(const uintptr_t *words)
{
    classic_free((void *)words[0]);
}

void classic_free(void *block)
{
    if (!arena_of(block)) {
        free_elsewhere(block);
    } else if (__builtin_expect(lock_enter(&arena.lock), 1)) {
        policy->free(arena.heap, block);
        lock_release(&arena.lock);
    } else {
        defer_one(free_deferred, block);
        frozen_end();
    }
}

/* A block of the frozen heap, or one that is not the heap's. */
static __attribute__((noinline)) void *move_elsewhere(void *block, size_t usable, size_t size)
{
    if (size <= usable && size > usable / 2)
        return block;
    void *moved = classic_alloc(size);
    if (moved) {
        memcpy(moved, block, usable < size ? usable : size);
        classic_free(block);
    }
    return moved;
}

void *classic_resize(void *block, size_t size)
{
    if (!arena_of(block))
        return move_elsewhere(block, classic_usable_size(block), size);
    if (!lock_enter(&arena.lock)) {
        size_t usable = policy->usable_size(arena.heap, block);
        frozen_end();
        return move_elsewhere(block, usable, size);
    }
    void *moved = heap_realloc(policy, arena.heap, block, size);
    lock_release(&arena.lock);
    return moved;
}

/* After lock_enter. If that was refused the heap is read without the lock: [still heap]. */
static void end_reading(bool locked)
{
    if (locked)
        lock_release(&arena.lock);
    else
        frozen_end();
}

size_t classic_usable_size(const void *block)
{
    if (!arena_of(block)) {
        const struct fork_block *fork_block = fork_block_at(block);
        return fork_block ? fork_block_usable(fork_block, block) : 0;
    }
    bool locked = lock_enter(&arena.lock);
    size_t usable = policy->usable_size(arena.heap, block);
    end_reading(locked);
    return usable;
}

struct block_waste classic_waste(const void *block)
{
    if (!arena_of(block))
        return (struct block_waste){0};
    bool locked = lock_enter(&arena.lock);
    struct block_waste waste = policy->waste(arena.heap, block);
    end_reading(locked);
    return waste;
}

bool classic_owns(const void *address)
{
    return arena_of(address) || fork_block_at(address);
}

void classic_thread_exit(void)
{
}

size_t classic_trim(void)
{
    if (!policy->trim)
        return 0;
    if (!lock_enter(&arena.lock)) {
        frozen_end();
        return 0;
    }
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
    fork_blocks_count(&statistics->large_blocks, &statistics->large_bytes);
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
    fork_blocks_lock();
    fork_blocks_each(visit, argument);
    fork_blocks_unlock();
}

bool classic_is_valid(void)
{
    lock_acquire(&arena.lock);
    bool valid = policy->is_valid(arena.heap);
    lock_release(&arena.lock);
    return valid;
}
