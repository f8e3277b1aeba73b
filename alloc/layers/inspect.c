/* SPDX-License-Identifier: MIT
 *
 * inspect.c: looking at the layers from outside: what is cached, the figures, every block, whether
 * the heaps are sound.
 */
#include "alloc/fork_block.h"
#include "alloc/layers/large.h"
#include "alloc/layers/states.h"

static void count_cached(uint64_t *blocks, uint64_t *bytes)
{
    lock_acquire(&registry.lock);
    for (struct thread_cache *cache = registry.caches; cache; cache = cache->next)
        for (unsigned bin = 0; bin < registry.policy->bins; bin++) {
            if (cache->is_orphan)
                cache_bin_recount(&cache->bins[bin]);
            uint32_t count = cache_bin_count_of_other(&cache->bins[bin]);
            count += cache->bins[bin].reserve ? cache->bins[bin].capacity : 0;
            *blocks += count;
            *bytes += count * registry.policy->bin_request(bin);
        }
    lock_acquire(&registry.depot.lock);
    *blocks += registry.depot.blocks;
    *bytes += registry.depot.bytes;
    lock_release(&registry.depot.lock);
    lock_release(&registry.lock);
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
    for (unsigned i = 0; i < registry.arena_count; i++) {
        lock_acquire(&registry.arenas[i]->lock);
        heap_policy()->statistics(registry.arenas[i]->heap, &statistics->heap);
        lock_release(&registry.arenas[i]->lock);
    }
    count_cached(&statistics->heap.cached_blocks, &statistics->heap.cached_bytes);
    statistics->arenas = registry.arena_count;
    statistics->threads = registry.threads;
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
    for (unsigned i = 0; i < registry.arena_count; i++) {
        lock_acquire(&registry.arenas[i]->lock);
        heap_policy()->walk(registry.arenas[i]->heap, visit_with_state, &inner);
        lock_release(&registry.arenas[i]->lock);
    }
    large_walk(visit, argument);
    fork_blocks_lock();
    fork_blocks_each(visit, argument);
    fork_blocks_unlock();
}

bool layered_is_valid(void)
{
    bool valid = true;
    for (unsigned i = 0; i < registry.arena_count; i++) {
        lock_acquire(&registry.arenas[i]->lock);
        valid = heap_policy()->is_valid(registry.arenas[i]->heap) && valid;
        lock_release(&registry.arenas[i]->lock);
    }
    return valid;
}
