/* SPDX-License-Identifier: MIT
 *
 * registry.c: see registry.h.
 */
#include "alloc/layers/registry.h"

#include "vm/fork_chain.h"
#include "vm/freeze.h"
#include "vm/metadata.h"
#include "vm/syscall.h"

/* More blocks in a list than this do not pay: a bin of small blocks refills cheaply. */
enum { BIN_MOST = 256, FIRST_BATCH = 2 };

static struct thread_cache unstarted_cache; /* all zero: empty, and no room */
static struct thread_cache exited_cache;
__thread struct thread_cache *thread_cache = &unstarted_cache;

struct registry registry = {.depot.lock = LOCK_INITIALIZER(RANK_DEPOT),
                            .lock = LOCK_INITIALIZER(RANK_REGISTRY)};

/* Arenas. */

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
    if (!arena || !arena_init(arena, heap_policy(), registry.heap_options))
        return NULL;
    unsigned count = registry.arena_count;
    registry.arenas[count] = arena;
    registry.arena_count = count + 1; /* last: others look without the lock */
    return arena;
}

/* The arena with the fewest threads. While every arena has a thread, a new one is made, up to the
 * limit. */
static struct arena *choose_arena(void)
{
    struct arena *best = registry.arenas[0];
    for (unsigned i = 1; i < registry.arena_count; i++)
        if (registry.arenas[i]->threads < best->threads)
            best = registry.arenas[i];
    if (best->threads > 0 && registry.arena_count < registry.arena_limit) {
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

bool registry_init(const struct layered_policy *policy, const void *heap_options,
                   const struct layered_options *options)
{
    registry.policy = policy;
    registry.heap = heap_policy_for(policy->heap, heap_options);
    registry.heap_options = heap_options;
    registry.arena_limit = arena_limit_of(options->arenas);
    registry.cache_bytes = options->cache_bytes;
    registry.large_bytes = options->large_bytes;
    fork_chain_add(&registry.lock);
    fork_chain_add(&registry.depot.lock);
    return add_arena() != NULL;
}

void registry_limit_arenas(size_t arenas)
{
    lock_acquire(&registry.lock);
    registry.arena_limit = arena_limit_of(arenas);
    lock_release(&registry.lock);
}

/* Caches. */

/* A bin has two lists. Bins of small blocks are content with less than their share; what they leave
 * is divided among the rest, so that all together never keep more than the thread may. */
static void set_bin_limits(struct thread_cache *cache)
{
    const struct layered_policy *policy = registry.policy;
    size_t left = registry.cache_bytes;
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
    struct thread_cache *cache = registry.unused_caches;
    if (cache)
        registry.unused_caches = cache->next;
    else
        cache = metadata_alloc(sizeof *cache);
    if (!cache)
        return NULL;
    set_bin_limits(cache);
    cache->previous = NULL;
    cache->next = registry.caches;
    if (registry.caches)
        registry.caches->previous = cache;
    registry.caches = cache;
    return cache;
}

/* Takes over a cache of a thread that the child of a fork does not have, with the blocks in it.
 * NULL: there is none. */
static struct thread_cache *adopt_orphan(void)
{
    struct thread_cache *cache = registry.orphans > 0 ? registry.caches : NULL;
    while (cache && !cache->is_orphan)
        cache = cache->next;
    if (!cache)
        return NULL;
    for (unsigned bin = 0; bin < registry.policy->bins; bin++)
        cache_bin_recount(&cache->bins[bin]);
    cache->is_orphan = false;
    registry.orphans--;
    return cache;
}

void registry_start_thread(void)
{
    if (thread_cache == &exited_cache)
        return;
    if (!lock_enter(&registry.lock)) {
        frozen_end();
        return;
    }
    struct thread_cache *cache = adopt_orphan();
    if (!cache)
        cache = new_cache();
    if (cache) {
        cache->arena = choose_arena();
        thread_cache = cache; /* with the lock: a handler that forks now repairs nothing */
        registry.threads++;
    }
    bool first = registry.started++ == 0;
    lock_release(&registry.lock);
    if (cache && !first && allocator_thread_started)
        allocator_thread_started();
}

struct thread_cache *registry_leave(void)
{
    struct thread_cache *cache = thread_cache;
    thread_cache = &exited_cache;
    return cache == &exited_cache || cache == &unstarted_cache ? NULL : cache;
}

void registry_retire_cache(struct thread_cache *cache)
{
    lock_acquire(&registry.lock);
    cache->arena->threads--;
    registry.threads--;
    if (cache->previous)
        cache->previous->next = cache->next;
    else
        registry.caches = cache->next;
    if (cache->next)
        cache->next->previous = cache->previous;
    cache->arena = NULL;
    cache->next = registry.unused_caches;
    registry.unused_caches = cache;
    lock_release(&registry.lock);
}

struct chain registry_take_from_orphans(unsigned bin)
{
    struct chain chain = {0};
    lock_acquire(&registry.lock);
    for (struct thread_cache *cache = registry.caches; cache && !chain.blocks; cache = cache->next)
        if (cache->is_orphan) {
            struct cache_bin *list = &cache->bins[bin];
            cache_bin_recount(list);
            chain = list->reserve ? cache_bin_take_reserve(list) : cache_bin_empty(list);
        }
    lock_release(&registry.lock);
    return chain;
}

/* The caches of the threads that the child does not have are orphans: a thread of the child adopts
 * one with all that it holds, or takes a list out of it. Between any two instructions of the common
 * path a bin's list is whole; its counters may be off (cache_bin_recount). All else is inside an
 * operation, and none was under way. The child loses the block that a thread had just taken out of
 * its list, or not yet put in.
 * Not so where a device writes to the block's page meanwhile (O_DIRECT, io_uring): the child may
 * have the list's head without the link in its first block ([the child's copy],
 * alloc/blocks/heap.h). Then it follows what the program left there. To notice that, the child
 * would have to go through all lists before it frees anything: every fork would pay for it. */
void layered_fork_child(void)
{
    for (unsigned i = registry.arena_count; i-- > 0;)
        registry.arenas[i]->threads = thread_cache->arena == registry.arenas[i];
    registry.threads = thread_has_cache();
    registry.orphans = 0;
    for (struct thread_cache *cache = registry.caches; cache; cache = cache->next) {
        cache->is_orphan = cache != thread_cache;
        registry.orphans += cache->is_orphan;
    }
}
