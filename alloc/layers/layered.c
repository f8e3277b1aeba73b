/* SPDX-License-Identifier: MIT
 *
 * layered.c: the layers over a policy heap, off the common path; see layered.h. In this order:
 * from and to the arenas, the depot, allocation, freeing, threads.
 *
 * At most one arena lock is held at a time, except by fork. While that has frozen the heap
 * (vm/freeze.h), blocks are mappings of their own, and frees are deferred.
 */
#include "alloc/layers/layered.h"

#include <stdatomic.h>
#include <string.h>

#include "alloc/fork_block.h"
#include "alloc/layers/large.h"
#include "alloc/layers/registry.h"
#include "alloc/layers/states.h"
#include "vm/deferred.h"
#include "vm/fork_chain.h"
#include "vm/freeze.h"
#include "vm/message.h"
#include "vm/pages.h"

/* The depot may keep as much as a thread, or this part of what is mapped. */
enum { DEPOT_SHARE = 4 };

bool layered_init(const struct layered_policy *policy, const void *heap_options,
                  const struct layered_options *options)
{
    window_init(policy->shadow_shift);
    fork_chain_add(&large_lock);
    fork_blocks_init();
    return registry_init(policy, heap_options, options);
}

/* A library that is called directly has no resolver that runs before the first call. */
static void ensure_ready(void)
{
    if (!registry.policy)
        allocator_first_use();
}

/* Called before an operation, since allocator_thread_started may allocate. */
static inline void ensure_cache(void)
{
    if (!thread_has_cache())
        registry_start_thread();
}

static void *alloc_any_size(size_t size)
{
    ensure_ready();
    return layered_alloc(registry.policy, size);
}

/* The last bin whose requests a block with so many usable bytes serves; UNBINNED: none. A block
 * that exceeds the last bin by that bin's width has none either: too much of it would be wasted. */
static unsigned bin_that_takes(size_t usable)
{
    const struct layered_policy *policy = registry.policy;
    size_t width = policy->largest_binned - policy->bin_request(policy->bins - 2);
    if (usable < policy->bin_request(0) || usable >= policy->largest_binned + width)
        return UNBINNED;
    if (usable >= policy->largest_binned)
        return policy->bins - 1;
    unsigned bin = policy->bin_of(usable);
    return policy->bin_request(bin) > usable ? bin - 1 : bin;
}

static unsigned mark_live(struct arena *arena, void *block)
{
    unsigned bin = bin_that_takes(heap_policy()->usable_size(arena->heap, block));
    set_live(block, bin);
    return bin;
}

static bool is_large(size_t bytes)
{
    return bytes >= atomic_load_explicit(&registry.large_bytes, memory_order_relaxed);
}

/* From and to the arenas. Blocks that come from a heap are marked live, those that go to it are
 * marked as nothing. */

static bool is_refused(void)
{
    return atomic_load_explicit(&registry.refused, memory_order_relaxed);
}

static void set_refused(bool refused)
{
    atomic_store_explicit(&registry.refused, refused, memory_order_relaxed);
}

static void lock_arena(struct arena *arena, bool may_grow)
{
    lock_acquire(&arena->lock);
    arena->source.area.held = !may_grow;
}

static void unlock_arena(struct arena *arena)
{
    arena->source.area.held = false;
    lock_release(&arena->lock);
}

/* What is over-aligned has no bin: the next to take it would want it aligned as well. */
static void *alloc_from(struct arena *arena, size_t alignment, size_t size, bool may_grow)
{
    bool aligned = alignment > BLOCK_ALIGNMENT;
    lock_arena(arena, may_grow);
    void *block = aligned ? heap_policy()->alloc_aligned(arena->heap, alignment, size)
                          : heap_policy()->alloc(arena->heap, size);
    if (block && aligned)
        set_live(block, UNBINNED);
    else if (block)
        mark_live(arena, block);
    unlock_arena(arena);
    return block;
}

static void free_to(struct arena *arena, void *block)
{
    *shadow_of(block) = 0;
    heap_policy()->free(arena->heap, block);
}

/* Gives cached blocks back, taking each arena's lock once for a run of its blocks. */
static void free_chain(struct chain chain)
{
    struct arena *locked = NULL;
    void *list = chain.blocks;
    while (list) {
        void *block = list;
        list = *(void **)block;
        struct arena *arena = arena_of(block);
        check(arena != NULL);
        if (arena != locked) {
            if (locked)
                lock_release(&locked->lock);
            lock_acquire(&arena->lock);
            locked = arena;
        }
        free_to(arena, block);
    }
    if (locked)
        lock_release(&locked->lock);
}

/* Puts a block that came from a heap into the bin that it suits: a heap may give more than it was
 * asked for. False: that bin is full. The block goes back, and the heap would give it again. */
static bool stock(struct thread_cache *cache, struct arena *arena, void *block)
{
    unsigned bin = bin_that_takes(heap_policy()->usable_size(arena->heap, block));
    bool has_room = bin != UNBINNED && cache_bin_room(&cache->bins[bin]) > 0;
    if (has_room)
        cache_bin_put(&cache->bins[bin], block);
    else
        heap_policy()->free(arena->heap, block);
    return has_room;
}

/* Fills an empty bin with a list that this thread or another has set aside. False: there is
 * none. */
static bool take_list(struct cache_bin *bin, unsigned bin_index)
{
    struct chain chain = cache_bin_take_reserve(bin);
    if (!chain.blocks && bin->capacity > 0)
        chain = depot_get(&registry.depot, bin_index);
    if (!chain.blocks && bin->capacity > 0 && registry.orphans > 0)
        chain = registry_take_from_orphans(bin_index);
    if (chain.blocks)
        cache_bin_fill(bin, chain);
    return chain.blocks != NULL;
}

static void *alloc_from_free(struct arena *first, size_t alignment, size_t size)
{
    void *block = alloc_from(first, alignment, size, false);
    for (unsigned i = 0; !block && i < registry.arena_count; i++)
        if (registry.arenas[i] != first)
            block = alloc_from(registry.arenas[i], alignment, size, false);
    return block;
}

static void empty_cache(struct thread_cache *cache);
static void empty_depot(void);

/* When the kernel gives no more memory, other arenas may still have free blocks, and the caches may
 * have what merges to a larger one. As long as it is known to refuse, the kernel is asked last: to
 * ask costs dozens of system calls, and it is likely to refuse again. */
static void *alloc_from_any(struct arena *first, size_t alignment, size_t size)
{
    void *block = NULL;
    if (!is_refused() && (block = alloc_from(first, alignment, size, true)))
        return block;
    if ((block = alloc_from_free(first, alignment, size)))
        return block;
    if (thread_cache->arena)
        empty_cache(thread_cache);
    empty_depot();
    large_trim(0);
    if (!(block = alloc_from_free(first, alignment, size)))
        block = alloc_from(first, alignment, size, true);
    set_refused(!block);
    return block;
}

/* If no mapping can be had an arena may have room, unless more is asked for than all that is
 * mapped. */
static void *alloc_large(size_t alignment, size_t size, bool zeroed)
{
    void *block = large_alloc(alignment, size, zeroed);
    if (block || size > mapped_bytes() || alignment > mapped_bytes())
        return block;
    struct arena *arena = thread_has_cache() ? thread_cache->arena : registry.arenas[0];
    block = alloc_from_any(arena, alignment, size);
    return block && zeroed ? memset(block, 0, size) : block;
}

/* Takes a batch from the thread's arena: one block for the caller, the rest for the bin. */
static void *take_batch(struct thread_cache *cache, unsigned bin_index)
{
    struct cache_bin *bin = &cache->bins[bin_index];
    struct arena *arena = cache->arena;
    size_t request = registry.policy->bin_request(bin_index);
    lock_arena(arena, !is_refused());
    void *result = heap_policy()->alloc(arena->heap, request);
    if (result)
        mark_live(arena, result);
    for (unsigned i = 1; result && i < bin->batch && cache_bin_room(bin) > 0; i++) {
        void *block = heap_policy()->alloc(arena->heap, request);
        if (!block || !stock(cache, arena, block))
            break;
    }
    unlock_arena(arena);
    if (2 * bin->batch <= bin->capacity)
        bin->batch *= 2;
    return result ? result : alloc_from_any(arena, BLOCK_ALIGNMENT, request);
}

/* What the caches have no room for: to the depot, and from there to the arenas when that has too
 * much. */

static size_t depot_most(void)
{
    size_t share = mapped_bytes() / DEPOT_SHARE;
    return share > registry.cache_bytes ? share : registry.cache_bytes;
}

static void to_depot(const struct cache_bin *bin, unsigned bin_index, struct chain chain)
{
    chain.longest = bin->capacity;
    chain.block_bytes = registry.policy->bin_request(bin_index);
    while ((chain = depot_put(&registry.depot, bin_index, chain, depot_most())).blocks) {
        free_chain(chain);
        chain.blocks = NULL;
    }
}

static void empty_depot(void)
{
    for (unsigned bin = 0; bin < registry.policy->bins; bin++)
        for (struct chain chain; (chain = depot_get(&registry.depot, bin)).blocks;)
            free_chain(chain);
}

static void set_list_aside(struct cache_bin *bin, unsigned bin_index)
{
    struct chain reserve = cache_bin_take_reserve(bin);
    bin->reserve = cache_bin_empty(bin).blocks;
    if (reserve.blocks)
        to_depot(bin, bin_index, reserve);
}

static void empty_cache(struct thread_cache *cache)
{
    for (unsigned i = 0; i < registry.policy->bins; i++) {
        struct chain chains[] = {cache_bin_empty(&cache->bins[i]),
                                 cache_bin_take_reserve(&cache->bins[i])};
        for (size_t j = 0; j < 2; j++)
            if (chains[j].blocks)
                to_depot(&cache->bins[i], i, chains[j]);
    }
}

/* Allocation. */

/* In an operation. */
static void *alloc_uncached(size_t size)
{
    if (is_large(size))
        return alloc_large(BLOCK_ALIGNMENT, size, false);
    if (!thread_has_cache())
        return alloc_from_any(registry.arenas[0], BLOCK_ALIGNMENT, size);
    if (size > registry.policy->largest_binned)
        return alloc_from_any(thread_cache->arena, BLOCK_ALIGNMENT, size);
    unsigned bin = registry.policy->bin_of(size);
    if (take_list(&thread_cache->bins[bin], bin))
        return layered_take_cached(registry.policy, bin);
    return take_batch(thread_cache, bin);
}

void *layered_alloc_slowly(size_t size)
{
    ensure_ready();
    ensure_cache();
    void *block = NULL;
    if (size > (size_t)PTRDIFF_MAX)
        return refuse_memory();
    if (operation_begin()) {
        block = alloc_uncached(size);
        operation_end();
    } else {
        block = fork_block_alloc_then_end(BLOCK_ALIGNMENT, size);
    }
    return block ? block : refuse_memory();
}

void *layered_alloc_zeroed(size_t size)
{
    ensure_ready();
    if (is_large(size)) {
        if (!operation_begin())
            return fork_block_alloc_then_end(BLOCK_ALIGNMENT, size);
        void *block = alloc_large(BLOCK_ALIGNMENT, size, true);
        operation_end();
        return block;
    }
    void *block = layered_alloc(registry.policy, size);
    return block ? memset(block, 0, size) : NULL;
}

void *layered_alloc_aligned(size_t alignment, size_t size)
{
    if (alignment <= BLOCK_ALIGNMENT)
        return alloc_any_size(size);
    ensure_ready();
    ensure_cache();
    if (!operation_begin())
        return fork_block_alloc_then_end(alignment, size);
    struct arena *arena = thread_has_cache() ? thread_cache->arena : registry.arenas[0];
    void *block = is_large(size) || is_large(alignment) ? alloc_large(alignment, size, false)
                                                        : alloc_from_any(arena, alignment, size);
    operation_end();
    return block;
}

/* Freeing. */

_Noreturn static void report_not_live(const char *function, const void *block)
{
    abort_on_pointer_fault(function, block,
                           "not a live block (freed twice, never handed out, or points into "
                           "one)");
}

static void free_under_lock(struct arena *arena, void *block)
{
    lock_acquire(&arena->lock);
    free_to(arena, block);
    lock_release(&arena->lock);
}

static void free_deferred(const uintptr_t *words)
{
    void *block = (void *)words[0];
    free_under_lock(arena_of(block), block);
}

/* In an operation. */
static void free_to_bin(void *block, unsigned bin_index)
{
    if (!thread_has_cache()) {
        free_under_lock(arena_of(block), block);
        return;
    }
    struct cache_bin *bin = &thread_cache->bins[bin_index];
    if (cache_bin_room(bin) == 0 && bin->capacity > 0)
        set_list_aside(bin, bin_index);
    if (cache_bin_room(bin) > 0)
        cache_bin_put(bin, block);
    else
        free_under_lock(arena_of(block), block);
}

void layered_free_to_full_bin(void *block, unsigned bin_index)
{
    ensure_cache();
    if (operation_begin()) {
        free_to_bin(block, bin_index);
        operation_end();
    } else {
        defer_one(free_deferred, block);
        frozen_end();
    }
}

static void free_large_deferred(const uintptr_t *words)
{
    struct large_block *block = (struct large_block *)words[0];
    large_free(block, block->payload);
}

/* While the heap is frozen the block leaves the granule map at once, as by large_free. So a second
 * free finds no block. If that were deferred as well, it would take the block out of its list
 * twice. */
static void free_large(struct large_block *large, void *block)
{
    large_check_start(large, "free", block);
    if (operation_begin()) {
        large_free(large, block);
        operation_end();
    } else {
        granule_map_set(block, large->usable_bytes, NULL);
        defer_one(free_large_deferred, large);
        frozen_end();
    }
}

/* Frees a block of an arena without the thread cache. Where the free is deferred, the block's
 * shadow is cleared first, so that a second free is found. */
static void free_uncached(struct arena *arena, void *block)
{
    if (!is_live(block))
        report_not_live("free", block);
    if (lock_enter(&arena->lock)) {
        free_to(arena, block);
        lock_release(&arena->lock);
    } else {
        *shadow_of(block) = 0;
        defer_one(free_deferred, block);
        frozen_end();
    }
}

void layered_free_slowly(void *block)
{
    struct owner *owner = granule_map_get(block);
    if (!owner)
        report_pointer_fault("free", block, "not a block of this heap; ignored");
    else if (owner->kind == OWNER_LARGE)
        free_large((struct large_block *)owner, block);
    else if (owner->kind == OWNER_FORK_BLOCK)
        fork_block_free((struct fork_block *)owner, block);
    else
        free_uncached((struct arena *)owner, block);
}

/* Blocks in the program's hands. */

static size_t usable_size_of(struct arena *arena, const void *block)
{
    if (!heap_policy()->size_is_elsewhere)
        return heap_policy()->usable_size(arena->heap, block);
    bool locked = lock_enter(&arena->lock);
    size_t usable = heap_policy()->usable_size(arena->heap, block); /* [still heap], if unlocked */
    if (locked)
        lock_release(&arena->lock);
    else
        frozen_end();
    return usable;
}

/* A block that is large enough stays where there is no memory for another. */
static void *move_to_new_block(void *block, size_t old_usable, size_t size)
{
    void *moved = layered_alloc(registry.policy, size);
    if (!moved)
        return size <= old_usable ? block : NULL;
    memcpy(moved, block, old_usable < size ? old_usable : size);
    layered_free(registry.policy, block);
    return moved;
}

/* NULL: not in place, nor by its page tables. */
static void *resize_large(struct large_block *large, void *block, size_t size)
{
    if (!is_large(2 * size))
        return NULL;
    if (!operation_begin()) {
        frozen_end();
        return NULL;
    }
    void *resized = large_resize(large, block, size);
    operation_end();
    return resized;
}

static bool resize_in_place(struct arena *arena, void *block, size_t size)
{
    if (is_large(size))
        return false;
    if (!lock_enter(&arena->lock)) {
        frozen_end();
        return false;
    }
    bool resized = heap_policy()->resize(arena->heap, block, size);
    if (resized && bin_of_block(block) != UNBINNED)
        mark_live(arena, block);
    lock_release(&arena->lock);
    return resized;
}

void *layered_resize(void *block, size_t size)
{
    struct owner *owner = granule_map_get(block);
    if (owner->kind == OWNER_LARGE) {
        struct large_block *large = (struct large_block *)owner;
        large_check_start(large, "realloc", block);
        void *resized = resize_large(large, block, size);
        return resized ? resized : move_to_new_block(block, large->usable_bytes, size);
    }
    size_t usable = layered_usable_size(block);
    if (usable == 0)
        report_not_live("realloc", block);
    if (size <= usable && size > usable / 2)
        return block;
    if (owner->kind == OWNER_ARENA && resize_in_place((struct arena *)owner, block, size))
        return block;
    return move_to_new_block(block, usable, size);
}

size_t layered_usable_size(const void *block)
{
    struct owner *owner = granule_map_get(block);
    if (!owner)
        return 0;
    if (owner->kind == OWNER_LARGE) {
        const struct large_block *large = (const struct large_block *)owner;
        return large->payload == block ? large->usable_bytes : 0;
    }
    if (owner->kind == OWNER_FORK_BLOCK)
        return fork_block_usable((const struct fork_block *)owner, block);
    return is_live(block) ? usable_size_of((struct arena *)owner, block) : 0;
}

struct block_waste layered_waste(const void *block)
{
    struct arena *arena = arena_of(block);
    return arena ? heap_policy()->waste(arena->heap, block) : (struct block_waste){0};
}

bool layered_owns(const void *address)
{
    return granule_map_get(address) != NULL;
}

/* Threads, tuning and trimming. */

/* In an operation, or when the heap thaws. */
static void give_up_cache(struct thread_cache *cache)
{
    empty_cache(cache);
    registry_retire_cache(cache);
}

/* In the child the cache is an orphan by now, as all others. */
static void give_up_deferred(const uintptr_t *words)
{
    struct thread_cache *cache = (struct thread_cache *)words[0];
    if (!cache->is_orphan)
        give_up_cache(cache);
}

void layered_thread_exit(void)
{
    bool in_use = operation_begin();
    struct thread_cache *cache = registry_leave(); /* a handler that forks now repairs nothing */
    if (cache && in_use)
        give_up_cache(cache);
    else if (cache)
        defer_one(give_up_deferred, cache);
    if (in_use)
        operation_end();
    else
        frozen_end();
}

static size_t within(size_t value, size_t least, size_t most)
{
    return value < least ? least : value > most ? most : value;
}

void layered_tune(enum tuning parameter, size_t value)
{
    switch (parameter) {
    case TUNE_LARGE_BYTES:
        atomic_store_explicit(&registry.large_bytes, within(value, LARGE_LEAST, LARGE_MOST),
                              memory_order_relaxed);
        break;
    case TUNE_FREE_BYTES:
        large_keep(value);
        break;
    case TUNE_ARENAS:
        registry_limit_arenas(value);
        break;
    }
}

static void empty_orphans(void)
{
    for (unsigned bin = 0; registry.orphans > 0 && bin < registry.policy->bins; bin++)
        for (struct chain chain; (chain = registry_take_from_orphans(bin)).blocks;)
            free_chain(chain);
}

size_t layered_trim(void)
{
    size_t freed = 0;
    if (!operation_begin()) {
        frozen_end();
        return 0;
    }
    if (thread_has_cache())
        empty_cache(thread_cache);
    empty_orphans();
    empty_depot();
    freed += large_trim(0);
    for (unsigned i = 0; heap_policy()->trim && i < registry.arena_count; i++) {
        lock_acquire(&registry.arenas[i]->lock);
        freed += heap_policy()->trim(registry.arenas[i]->heap);
        lock_release(&registry.arenas[i]->lock);
    }
    operation_end();
    return freed;
}
