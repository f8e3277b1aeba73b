/* SPDX-License-Identifier: MIT
 *
 * inspect.c: `blocks` looked at from outside: walks, statistics, validity.
 */
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/threads.h"

struct walk {
    heap_visitor *visit;
    void *argument;
};

static void walk_slab(void *argument, struct slab *slab)
{
    const struct walk *walk = argument;
    for (size_t i = 0; i < slab->capacity; i++) {
        bool live = block_is_live(slab, i) || block_is_suspect(slab, i);
        struct block_info info = {.payload = slab_block(slab, i),
                                  .usable_bytes = slab->block_bytes,
                                  .block_bytes = slab->block_bytes,
                                  .state = live ? BLOCK_LIVE : BLOCK_FREE};
        walk->visit(walk->argument, &info);
    }
}

void blocks_walk(heap_visitor *visit, void *argument)
{
    struct walk walk = {visit, argument};
    lock_acquire(&blocks_heap.lock);
    blocks_each_slab(walk_slab, &walk);
    lock_release(&blocks_heap.lock);
}

struct free_count {
    uint64_t blocks, bytes;               /* free in all slabs */
    uint64_t cached_blocks, cached_bytes; /* of those, in slabs that a thread has */
};

/* The blocks in local free lists too. */
static uint64_t count_live_by_slab(const struct slab *slab)
{
    uint64_t live = 0;
    for (size_t i = 0; i < slab_words(slab); i++)
        live += count_bits(slab_live(slab, i));
    return live;
}

/* By the live bits, which are clear for the blocks in local free lists; where they may be late, no
 * program's block is in these. */
static uint64_t count_live_blocks(const struct slab *slab)
{
    if (slab_is_large(slab) || blocks_has_late_live_bits())
        return count_live_by_slab(slab);
    const _Atomic uint64_t *bits =
        &fast_table.live_bits[fast_table_unit(slab->base) / LIVE_BITS_PER_WORD];
    uint64_t live = 0, freed_remotely = 0;
    for (size_t i = 0; i < slab->granules * UNITS_PER_GRANULE / LIVE_BITS_PER_WORD; i++)
        live += count_bits(atomic_load_explicit(&bits[i], memory_order_relaxed));
    size_t words = slab_words(slab);
    for (size_t i = 0; i < words; i++)
        freed_remotely +=
            count_bits(atomic_load_explicit(&slab->words[i].remote, memory_order_relaxed));
    /* Those held back have no live bit. Other threads change both meanwhile. */
    uint64_t held_back =
        atomic_load_explicit(&slab->start, memory_order_relaxed) % SLAB_WORD_BLOCKS;
    freed_remotely -= held_back < freed_remotely ? held_back : freed_remotely;
    return live > freed_remotely ? live - freed_remotely : 0;
}

static void count_free_blocks(void *argument, struct slab *slab)
{
    struct free_count *count = argument;
    uint64_t live = count_live_blocks(slab);
    uint64_t blocks = live < slab->capacity ? slab->capacity - live : 0;
    uint64_t bytes = blocks * slab->block_bytes;
    if (thread_heap_of(slab)) {
        count->cached_blocks += blocks;
        count->cached_bytes += bytes;
    } else {
        count->blocks += blocks;
        count->bytes += bytes;
    }
}

static struct free_count count_all_free(void)
{
    struct free_count count = {0};
    blocks_each_slab(count_free_blocks, &count);
    return count;
}

void blocks_statistics(struct allocator_statistics *statistics)
{
    lock_acquire(&blocks_heap.lock);
    struct free_count count = count_all_free();
    *statistics = (struct allocator_statistics){
        .heap = {.free_blocks = count.blocks,
                 .free_bytes = count.bytes + blocks_heap.runs.free_granules * GRANULE_BYTES,
                 .cached_blocks = count.cached_blocks,
                 .cached_bytes = count.cached_bytes},
        .arenas = 1,
        .threads = blocks_heap.threads,
        .large_blocks = blocks_heap.large_blocks,
        .large_bytes = blocks_heap.large_bytes};
    lock_release(&blocks_heap.lock);
}

size_t blocks_cached_bytes(void)
{
    lock_acquire(&blocks_heap.lock);
    struct free_count count = count_all_free();
    lock_release(&blocks_heap.lock);
    return count.cached_bytes;
}

/* Validity. */

struct validity {
    bool valid;
    size_t granules, large_blocks, large_bytes;
};

/* Free and remote may both be set in the child of a fork: [remote until free]. */
static bool bits_are_valid(const struct slab *slab)
{
    size_t words = slab_words(slab);
    for (size_t i = 0; i < words; i++) {
        const struct slab_word *word = &slab->words[i];
        uint64_t mask = slab_word_mask(slab, i), free = slab_free(word);
        if ((free & ~mask) || (word->remote & ~mask) || (free & word->retired && !quarantine_on))
            return false;
    }
    return true;
}

static bool live_bits_are_valid(const struct slab *slab)
{
    if (blocks_has_late_live_bits())
        return true;
    for (size_t i = 0; i < slab->capacity; i++)
        if ((slab_free(&slab->words[i / SLAB_WORD_BLOCKS]) & slab_bit(i)) &&
            unit_is_live(fast_table_unit(slab_block(slab, i))))
            return false;
    return true;
}

static void check_slab(void *argument, struct slab *slab)
{
    struct validity *validity = argument;
    bool valid = bits_are_valid(slab);
    for (size_t i = 0; i < slab->granules; i++)
        valid = valid && granule_map_get(slab->base + i * GRANULE_BYTES) == slab;
    valid = valid && slab->capacity * slab->block_bytes <= slab->granules * GRANULE_BYTES;
    if (slab_is_large(slab)) {
        valid = valid && slab->capacity == 1 && slab->reciprocal == 1;
        validity->large_blocks++;
        validity->large_bytes += slab->block_bytes;
    } else {
        valid = valid && slab->block_bytes == size_class_bytes[slab->class_index] &&
                live_bits_are_valid(slab);
    }
    if (!slab_is_large(slab) || slab->state != SLAB_MAPPING)
        validity->granules += slab->granules;
    validity->valid = validity->valid && valid;
}

static bool abandoned_lists_are_valid(void)
{
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        const struct abandoned_bin *bin = &blocks_heap.abandoned[i];
        const struct slab *lists[] = {bin->available, bin->full};
        for (size_t list = 0; list < 2; list++)
            for (const struct slab *slab = lists[list]; slab; slab = slab->next)
                if (slab->class_index != i || slab->thread_heap || slab->capacity == 0 ||
                    slab->state != (list == 0 ? SLAB_ABANDONED : SLAB_ABANDONED_FULL) ||
                    (slab->next && slab->next->previous != slab))
                    return false;
    }
    return true;
}

static bool may_be_local_free(const struct bin *bin, const void *block)
{
    const struct slab *slab = blocks_slab_of(block);
    if (!slab || slab->block_bytes != bin->block_bytes || unit_is_live(fast_table_unit(block)))
        return false;
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    return exact && (slab_live(slab, index / SLAB_WORD_BLOCKS) & slab_bit(index)) != 0;
}

/* Whether the calling thread's local free lists are valid. Other threads' lists may change at any
 * moment. */
static bool local_free_lists_are_valid(void)
{
    for (size_t i = 0; thread_heap->alive && i < SIZE_CLASSES; i++) {
        const struct bin *bin = &thread_heap->bins[i];
        int32_t left = local_free_limit(bin->block_bytes) - bin->local_free_room;
        for (const void *block = bin->local_free; block; block = *(void *const *)block)
            if (left-- == 0 || !may_be_local_free(bin, block))
                return false;
        if (left != 0)
            return false;
    }
    return true;
}

bool blocks_is_valid(void)
{
    struct validity validity = {.valid = true};
    lock_acquire(&blocks_heap.lock);
    blocks_each_slab(check_slab, &validity);
    bool valid = validity.valid && validity.granules == blocks_heap.runs.used_granules &&
                 validity.large_blocks == blocks_heap.large_blocks &&
                 validity.large_bytes == blocks_heap.large_bytes && abandoned_lists_are_valid() &&
                 local_free_lists_are_valid() && runs_are_valid(&blocks_heap.runs);
    lock_release(&blocks_heap.lock);
    return valid;
}
