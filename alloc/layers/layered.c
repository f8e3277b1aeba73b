/* SPDX-License-Identifier: MIT
 *
 * layered.c: the layers over a policy heap, off the common path; see layered.h. In this order:
 * arenas and caches, the states of blocks, allocation, freeing, threads and fork, looking in from
 * outside.
 *
 * The registry (its lock is taken first) holds the arenas, which live for ever, and the caches of
 * all threads. Between caches and arenas is the depot. At most one arena lock is held at a time,
 * except by fork. While that has frozen the heap (vm/freeze.h), blocks are mappings of their own,
 * and frees are deferred.
 */
#include "alloc/layers/layered.h"

#include <stdatomic.h>
#include <string.h>

#include "alloc/fork_block.h"
#include "alloc/layers/large.h"
#include "vm/deferred.h"
#include "vm/fork_chain.h"
#include "vm/freeze.h"
#include "vm/message.h"
#include "vm/metadata.h"
#include "vm/pages.h"
#include "vm/syscall.h"

enum { MAX_ARENAS = 64 };

/* More blocks in a list than this do not pay: a bin of small blocks refills cheaply. */
enum { BIN_MOST = 256, FIRST_BATCH = 2 };

/* The depot may keep as much as a thread, or this part of what is mapped. */
enum { DEPOT_SHARE = 4 };

static struct thread_cache unstarted_cache; /* all zero: empty, and no room */
static struct thread_cache exited_cache;
__thread struct thread_cache *thread_cache = &unstarted_cache;

static struct {
    const struct layered_policy *policy;
    const struct heap_policy *heap; /* that serves the options */
    const void *heap_options;
    _Atomic size_t large_bytes; /* changed by layered_tune, at any time */
    size_t cache_bytes;
    _Atomic bool refused; /* the kernel gave no memory when it was last asked; a hint */
    struct lock lock;     /* of what follows */
    unsigned arena_limit;
    _Atomic unsigned arena_count; /* read without the lock, too */
    struct arena *arenas[MAX_ARENAS];
    struct thread_cache *caches, *unused_caches;
    unsigned orphans; /* of the caches: see layered_fork_child */
    uint64_t threads;
} layers = {.lock = LOCK_INITIALIZER(RANK_REGISTRY)};

static struct depot depot = {.lock = LOCK_INITIALIZER(RANK_DEPOT)};

static const struct heap_policy *heap_policy(void)
{
    return layers.heap;
}

/* Arenas and caches. */

/* Counted here: libc's function lies on a page that short processes use for nothing else. */
static unsigned processors(void)
{
    uint64_t set[16] = {0};
    long bytes = SYSCALL_3(SYS_sched_getaffinity, 0, sizeof set, set);
    unsigned count = 0;
    for (size_t i = 0; !syscall_failed(bytes) && i < (size_t)bytes / sizeof *set; i++)
        count += (unsigned)__builtin_popcountll(set[i]);
    return count > 0 ? count : 1;
}

static struct arena *add_arena(void)
{
    struct arena *arena = metadata_alloc(sizeof *arena);
    if (!arena || !arena_init(arena, heap_policy(), layers.heap_options))
        return NULL;
    unsigned count = layers.arena_count;
    layers.arenas[count] = arena;
    layers.arena_count = count + 1; /* last: others look without the lock */
    return arena;
}

/* The arena with the fewest threads. While every arena has a thread, a new one is made, up to the
 * limit. */
static struct arena *choose_arena(void)
{
    struct arena *best = layers.arenas[0];
    for (unsigned i = 1; i < layers.arena_count; i++)
        if (layers.arenas[i]->threads < best->threads)
            best = layers.arenas[i];
    if (best->threads > 0 && layers.arena_count < layers.arena_limit) {
        struct arena *added = add_arena();
        if (added)
            best = added;
    }
    best->threads++;
    return best;
}

static unsigned arena_limit_of(size_t asked)
{
    size_t arenas = asked > 0 ? asked : 2 * processors();
    return arenas < MAX_ARENAS ? (unsigned)arenas : MAX_ARENAS;
}

bool layered_init(const struct layered_policy *policy, const void *heap_options,
                  const struct layered_options *options)
{
    layers.policy = policy;
    layers.heap = heap_policy_for(policy->heap, heap_options);
    layers.heap_options = heap_options;
    layers.arena_limit = arena_limit_of(options->arenas);
    layers.cache_bytes = options->cache_bytes;
    layers.large_bytes = options->large_bytes;
    window_init(policy->shadow_shift);
    fork_chain_add(&layers.lock);
    fork_chain_add(&depot.lock);
    fork_chain_add(&large_lock);
    fork_blocks_init();
    return add_arena() != NULL;
}

/* A bin has two lists. Bins of small blocks are content with less than their share; what they leave
 * is divided among the rest, so that all together never keep more than the thread may. */
static void set_bin_limits(struct thread_cache *cache)
{
    const struct layered_policy *policy = layers.policy;
    size_t left = layers.cache_bytes;
    for (unsigned bin = 0; bin < policy->bins; bin++) {
        size_t block_bytes = policy->bin_request(bin);
        size_t limit = left / (policy->bins - bin) / (2 * block_bytes);
        if (limit > BIN_MOST)
            limit = BIN_MOST;
        left -= limit * 2 * block_bytes;
        cache->bins[bin] = (struct cache_bin){
            .allowed = (uint32_t)limit, .capacity = (uint32_t)limit, .batch = FIRST_BATCH};
    }
}

static struct thread_cache *new_cache(void)
{
    struct thread_cache *cache = layers.unused_caches;
    if (cache)
        layers.unused_caches = cache->next;
    else
        cache = metadata_alloc(sizeof *cache);
    if (!cache)
        return NULL;
    set_bin_limits(cache);
    cache->previous = NULL;
    cache->next = layers.caches;
    if (layers.caches)
        layers.caches->previous = cache;
    layers.caches = cache;
    return cache;
}

/* Takes over a cache of a thread that the child of a fork does not have, with the blocks in it.
 * NULL: there is none. */
static struct thread_cache *adopt_orphan(void)
{
    struct thread_cache *cache = layers.orphans > 0 ? layers.caches : NULL;
    while (cache && !cache->is_orphan)
        cache = cache->next;
    if (!cache)
        return NULL;
    for (unsigned bin = 0; bin < layers.policy->bins; bin++)
        cache_bin_recount(&cache->bins[bin]);
    cache->is_orphan = false;
    layers.orphans--;
    return cache;
}

/* Gives the calling thread a cache, which has an arena from then on. Not for a thread whose cache
 * is gone already, without memory, or while the heap is frozen: it goes straight to an arena. */
static __attribute__((noinline)) void start_thread(void)
{
    if (thread_cache == &exited_cache)
        return;
    if (!lock_enter(&layers.lock)) {
        frozen_end();
        return;
    }
    struct thread_cache *cache = adopt_orphan();
    if (!cache)
        cache = new_cache();
    if (cache) {
        cache->arena = choose_arena();
        layers.threads++;
    }
    bool first = layers.threads == 1;
    lock_release(&layers.lock);
    if (!cache)
        return;
    thread_cache = cache;
    if (!first && allocator_thread_started)
        allocator_thread_started();
}

static bool thread_has_cache(void)
{
    return thread_cache->arena != NULL;
}

/* Called before an operation, since allocator_thread_started may allocate. */
static inline void ensure_cache(void)
{
    if (!thread_has_cache())
        start_thread();
}

/* A library that is called directly has no resolver that runs before the first call. */
static void ensure_ready(void)
{
    if (!layers.policy)
        allocator_first_use();
}

static void *alloc_any_size(size_t size)
{
    ensure_ready();
    return layered_alloc(layers.policy, size);
}

/* States. */

static uint8_t *shadow_of(const void *block)
{
    return window_shadow(window_unit(block), layers.policy->shadow_shift);
}

/* The bin of a live block, UNBINNED, or NOT_LIVE. */
static unsigned bin_of_block(const void *block)
{
    size_t unit = window_unit(block);
    if (!window_holds(unit))
        return NOT_LIVE;
    unsigned bin = shadow_bin(*shadow_of(block), unit, layers.policy->shadow_shift);
    return bin <= UNBINNED ? bin : NOT_LIVE;
}

static bool is_live(const void *block)
{
    return bin_of_block(block) != NOT_LIVE;
}

static void set_live(const void *block, unsigned bin)
{
    *shadow_of(block) = shadow_live(bin, window_unit(block), layers.policy->shadow_shift);
}

/* The last bin whose requests a block with so many usable bytes serves; UNBINNED: none. A block
 * that exceeds the last bin by that bin's width has none either: too much of it would be wasted. */
static unsigned bin_that_takes(size_t usable)
{
    const struct layered_policy *policy = layers.policy;
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
    return bytes >= atomic_load_explicit(&layers.large_bytes, memory_order_relaxed);
}

/* From and to the arenas. Blocks that come from a heap are marked live, those that go to it are
 * marked as nothing. */

static bool is_refused(void)
{
    return atomic_load_explicit(&layers.refused, memory_order_relaxed);
}

static void set_refused(bool refused)
{
    atomic_store_explicit(&layers.refused, refused, memory_order_relaxed);
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

/* A chain of a bin, from the cache of a thread that the child of a fork does not have. */
static struct chain take_from_orphans(unsigned bin_index)
{
    struct chain chain = {0};
    lock_acquire(&layers.lock);
    for (struct thread_cache *cache = layers.caches; cache && !chain.blocks; cache = cache->next)
        if (cache->is_orphan) {
            struct cache_bin *bin = &cache->bins[bin_index];
            cache_bin_recount(bin);
            chain = bin->reserve ? cache_bin_take_reserve(bin) : cache_bin_empty(bin);
        }
    lock_release(&layers.lock);
    return chain;
}

/* Fills an empty bin with a list that this thread or another has set aside. False: there is
 * none. */
static bool take_list(struct cache_bin *bin, unsigned bin_index)
{
    struct chain chain = cache_bin_take_reserve(bin);
    if (!chain.blocks && bin->capacity > 0)
        chain = depot_get(&depot, bin_index);
    if (!chain.blocks && bin->capacity > 0 && layers.orphans > 0)
        chain = take_from_orphans(bin_index);
    if (chain.blocks)
        cache_bin_fill(bin, chain);
    return chain.blocks != NULL;
}

static void *alloc_from_free(struct arena *first, size_t alignment, size_t size)
{
    void *block = alloc_from(first, alignment, size, false);
    for (unsigned i = 0; !block && i < layers.arena_count; i++)
        if (layers.arenas[i] != first)
            block = alloc_from(layers.arenas[i], alignment, size, false);
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
    struct arena *arena = thread_has_cache() ? thread_cache->arena : layers.arenas[0];
    block = alloc_from_any(arena, alignment, size);
    return block && zeroed ? memset(block, 0, size) : block;
}

/* Takes a batch from the thread's arena: one block for the caller, the rest for the bin. */
static void *take_batch(struct thread_cache *cache, unsigned bin_index)
{
    struct cache_bin *bin = &cache->bins[bin_index];
    struct arena *arena = cache->arena;
    size_t request = layers.policy->bin_request(bin_index);
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
    return share > layers.cache_bytes ? share : layers.cache_bytes;
}

static void to_depot(const struct cache_bin *bin, unsigned bin_index, struct chain chain)
{
    chain.longest = bin->capacity;
    chain.block_bytes = layers.policy->bin_request(bin_index);
    while ((chain = depot_put(&depot, bin_index, chain, depot_most())).blocks) {
        free_chain(chain);
        chain.blocks = NULL;
    }
}

static void empty_depot(void)
{
    for (unsigned bin = 0; bin < layers.policy->bins; bin++)
        for (struct chain chain; (chain = depot_get(&depot, bin)).blocks;)
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
    for (unsigned i = 0; i < layers.policy->bins; i++) {
        struct chain chains[] = {cache_bin_empty(&cache->bins[i]),
                                 cache_bin_take_reserve(&cache->bins[i])};
        for (size_t j = 0; j < 2; j++)
            if (chains[j].blocks)
                to_depot(&cache->bins[i], i, chains[j]);
    }
}

/* Allocation. */

/* The heap is frozen. */
static void *alloc_frozen(size_t alignment, size_t size)
{
    void *block = fork_block_alloc(alignment, size);
    frozen_end();
    return block;
}

/* In an operation. */
static void *alloc_uncached(size_t size)
{
    if (is_large(size))
        return alloc_large(BLOCK_ALIGNMENT, size, false);
    if (!thread_has_cache())
        return alloc_from_any(layers.arenas[0], BLOCK_ALIGNMENT, size);
    if (size > layers.policy->largest_binned)
        return alloc_from_any(thread_cache->arena, BLOCK_ALIGNMENT, size);
    unsigned bin = layers.policy->bin_of(size);
    if (take_list(&thread_cache->bins[bin], bin))
        return layered_take_cached(layers.policy, bin);
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
        block = alloc_frozen(BLOCK_ALIGNMENT, size);
    }
    return block ? block : refuse_memory();
}

void *layered_alloc_zeroed(size_t size)
{
    ensure_ready();
    if (is_large(size)) {
        if (!operation_begin())
            return alloc_frozen(BLOCK_ALIGNMENT, size);
        void *block = alloc_large(BLOCK_ALIGNMENT, size, true);
        operation_end();
        return block;
    }
    void *block = layered_alloc(layers.policy, size);
    return block ? memset(block, 0, size) : NULL;
}

void *layered_alloc_aligned(size_t alignment, size_t size)
{
    if (alignment <= BLOCK_ALIGNMENT)
        return alloc_any_size(size);
    ensure_ready();
    ensure_cache();
    if (!operation_begin())
        return alloc_frozen(alignment, size);
    struct arena *arena = thread_has_cache() ? thread_cache->arena : layers.arenas[0];
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
    void *moved = layered_alloc(layers.policy, size);
    if (!moved)
        return size <= old_usable ? block : NULL;
    memcpy(moved, block, old_usable < size ? old_usable : size);
    layered_free(layers.policy, block);
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

/* Threads and fork. */

/* In an operation, or when the heap thaws. */
static void give_up_cache(struct thread_cache *cache)
{
    empty_cache(cache);
    lock_acquire(&layers.lock);
    cache->arena->threads--;
    if (cache->previous)
        cache->previous->next = cache->next;
    else
        layers.caches = cache->next;
    if (cache->next)
        cache->next->previous = cache->previous;
    cache->arena = NULL;
    cache->next = layers.unused_caches;
    layers.unused_caches = cache;
    lock_release(&layers.lock);
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
    struct thread_cache *cache = thread_cache;
    thread_cache = &exited_cache;
    if (cache == &exited_cache || cache == &unstarted_cache)
        return;
    if (operation_begin()) {
        give_up_cache(cache);
        operation_end();
    } else {
        defer_one(give_up_deferred, cache);
        frozen_end();
    }
}

/* The caches of the threads that the child does not have are orphans: a thread of the child adopts
 * one with all that it holds, or takes a list out of it. Between any two instructions of the common
 * path a bin's list is whole; its counters may be off (cache_bin_recount). All else is inside an
 * operation, and none was under way. The child loses the block that a thread had just taken out of
 * its list, or not yet put in. */
void layered_fork_child(void)
{
    for (unsigned i = layers.arena_count; i-- > 0;)
        layers.arenas[i]->threads = thread_cache->arena == layers.arenas[i];
    layers.orphans = 0;
    for (struct thread_cache *cache = layers.caches; cache; cache = cache->next) {
        cache->is_orphan = cache != thread_cache;
        layers.orphans += cache->is_orphan;
    }
}

/* Looking in from outside, and tuning. */

static size_t within(size_t value, size_t least, size_t most)
{
    return value < least ? least : value > most ? most : value;
}

void layered_tune(enum tuning parameter, size_t value)
{
    switch (parameter) {
    case TUNE_LARGE_BYTES:
        atomic_store_explicit(&layers.large_bytes, within(value, LARGE_LEAST, LARGE_MOST),
                              memory_order_relaxed);
        break;
    case TUNE_FREE_BYTES:
        large_keep(value);
        break;
    case TUNE_ARENAS:
        lock_acquire(&layers.lock);
        layers.arena_limit = arena_limit_of(value);
        lock_release(&layers.lock);
        break;
    }
}

static void empty_orphans(void)
{
    for (unsigned bin = 0; layers.orphans > 0 && bin < layers.policy->bins; bin++)
        for (struct chain chain; (chain = take_from_orphans(bin)).blocks;)
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
    for (unsigned i = 0; heap_policy()->trim && i < layers.arena_count; i++) {
        lock_acquire(&layers.arenas[i]->lock);
        freed += heap_policy()->trim(layers.arenas[i]->heap);
        lock_release(&layers.arenas[i]->lock);
    }
    operation_end();
    return freed;
}

static void count_cached(uint64_t *blocks, uint64_t *bytes)
{
    lock_acquire(&layers.lock);
    for (struct thread_cache *cache = layers.caches; cache; cache = cache->next)
        for (unsigned bin = 0; bin < layers.policy->bins; bin++) {
            if (cache->is_orphan)
                cache_bin_recount(&cache->bins[bin]);
            uint32_t count = cache_bin_count_of_other(&cache->bins[bin]);
            count += cache->bins[bin].reserve ? cache->bins[bin].capacity : 0;
            *blocks += count;
            *bytes += count * layers.policy->bin_request(bin);
        }
    lock_acquire(&depot.lock);
    *blocks += depot.blocks;
    *bytes += depot.bytes;
    lock_release(&depot.lock);
    lock_release(&layers.lock);
}

size_t layered_cached_bytes(void)
{
    uint64_t blocks = 0, bytes = 0;
    count_cached(&blocks, &bytes);
    return bytes;
}

void layered_statistics(struct allocator_statistics *statistics)
{
    *statistics = (struct allocator_statistics){0};
    for (unsigned i = 0; i < layers.arena_count; i++) {
        lock_acquire(&layers.arenas[i]->lock);
        heap_policy()->statistics(layers.arenas[i]->heap, &statistics->heap);
        lock_release(&layers.arenas[i]->lock);
    }
    count_cached(&statistics->heap.cached_blocks, &statistics->heap.cached_bytes);
    statistics->arenas = layers.arena_count;
    statistics->threads = layers.threads;
    large_statistics(&statistics->large_blocks, &statistics->large_bytes);
    fork_blocks_count(&statistics->large_blocks, &statistics->large_bytes);
}

struct visit {
    heap_visitor *visit;
    void *argument;
};

/* Where the program's block begins in a block that the policy heap holds for live: further in, if
 * it is over-aligned. NULL: the block is in a thread's cache or in the depot. */
static char *live_payload(const struct block_info *info)
{
    char *payload = info->payload;
    for (size_t offset = 0; offset < info->usable_bytes; offset += BLOCK_ALIGNMENT)
        if (is_live(payload + offset))
            return payload + offset;
    return NULL;
}

static void visit_with_state(void *argument, const struct block_info *info)
{
    const struct visit *visit = argument;
    struct block_info corrected = *info;
    if (info->state == BLOCK_LIVE) {
        char *payload = live_payload(info);
        if (payload) {
            corrected.payload = payload;
            corrected.usable_bytes -= (size_t)(payload - (char *)info->payload);
        } else {
            corrected.state = BLOCK_CACHED;
        }
    }
    visit->visit(visit->argument, &corrected);
}

void layered_walk(heap_visitor *visit, void *argument)
{
    struct visit inner = {visit, argument};
    for (unsigned i = 0; i < layers.arena_count; i++) {
        lock_acquire(&layers.arenas[i]->lock);
        heap_policy()->walk(layers.arenas[i]->heap, visit_with_state, &inner);
        lock_release(&layers.arenas[i]->lock);
    }
    large_walk(visit, argument);
    fork_blocks_lock();
    fork_blocks_each(visit, argument);
    fork_blocks_unlock();
}

bool layered_is_valid(void)
{
    bool valid = true;
    for (unsigned i = 0; i < layers.arena_count; i++) {
        lock_acquire(&layers.arenas[i]->lock);
        valid = heap_policy()->is_valid(layers.arenas[i]->heap) && valid;
        lock_release(&layers.arenas[i]->lock);
    }
    return valid;
}
