/* SPDX-License-Identifier: MIT
 *
 * blocks.c: `blocks` as an allocator: what is not malloc and free (fast.c), and how it starts.
 */
#include "alloc/blocks/blocks.h"

#include <string.h>

#include "alloc/blocks/large.h"
#include "alloc/blocks/late_sweep.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/records.h"
#include "alloc/blocks/slow.h"
#include "alloc/blocks/threads.h"
#include "vm/fork_chain.h"
#include "vm/clock.h"
#include "vm/freeze.h"
#include "vm/pages.h"

void *blocks_alloc_zeroed(size_t size)
{
    void *block = size > CLASS_LARGEST ? alloc_large_zeroed(size) : blocks_alloc(size);
    if (!block)
        return NULL;
    return size > CLASS_LARGEST ? block : memset(block, 0, size);
}

/* Blocks start at multiples of their size from a granule's start, so a class whose size is a
 * multiple of the alignment will do. */
static size_t aligned_class_size(size_t alignment, size_t size)
{
    for (unsigned i = size_class_of(round_up(size > 0 ? size : 1, alignment)); i < SIZE_CLASSES;
         i++)
        if (size_class_bytes[i] % alignment == 0)
            return size_class_bytes[i];
    return 0;
}

static void *alloc_large_aligned(size_t alignment, size_t size)
{
    void *block;
    if (operation_begin()) {
        block = large_block_alloc(alignment, size, RUN_ANY);
        operation_end();
    } else {
        block = large_block_alloc_frozen(alignment, size);
        frozen_end();
    }
    return block;
}

void *blocks_alloc_aligned(size_t alignment, size_t size)
{
    if (alignment <= BLOCK_ALIGNMENT)
        return blocks_alloc(size);
    if (size <= CLASS_LARGEST && alignment <= CLASS_LARGEST) {
        size_t class_size =
            round_up(size, alignment) <= CLASS_LARGEST ? aligned_class_size(alignment, size) : 0;
        if (class_size > 0)
            return blocks_alloc(class_size);
    }
    if (!thread_heap->alive)
        start_thread();
    void *block = size <= (size_t)PTRDIFF_MAX ? alloc_large_aligned(alignment, size) : NULL;
    return block ? block : refuse_memory();
}

/* [freed is born again] (gc/cycle/snapshot_cycle.h) */
static void note_freed_block(const void *block)
{
    struct slab *slab = slab_at(block);
    size_t index;
    if (!slab || !slab_find(slab, block, &index))
        return;
    if (!atomic_load_explicit(&slab->has_freed, memory_order_relaxed))
        atomic_store_explicit(&slab->has_freed, true, memory_order_relaxed);
    __atomic_fetch_or(slab_unborn(slab, index / SLAB_WORD_BLOCKS), slab_bit(index),
                      __ATOMIC_RELAXED);
}

/* The steps, and what the block is for a thread that is stopped after each:
 *
 *     note_free                 the program's
 *     has_freed, then unborn    the program's; at worst marked in vain: [freed is born again]
 *     free_slowly               slow.c
 *     note_free                 freed, and in a register until that is told */
void blocks_free_by_slab(void *block)
{
    note_free();
    if (__builtin_expect(atomic_load_explicit(&blocks_heap.notes_freed, memory_order_relaxed), 0))
        note_freed_block(block);
    free_slowly(block);
    note_free(); /* a cycle may have begun since the first, and forgotten that */
    keep_in_register(block);
}

static void free_moved(void *block)
{
    if (blocks_has_late_live_bits())
        blocks_free_by_slab(block);
    else
        blocks_free(block);
}

/* A thread that is stopped in here has the old block and, once it is made, the new one in a
 * register or on its stack: [on its way]. The old one is retired no more, so it is followed. */
void *blocks_resize(void *block, size_t size)
{
    struct slab *slab = slab_of_block(block, "realloc");
    if (!slab)
        return NULL;
    sweep_before_free(slab);
    size_t usable = slab->block_bytes, index = live_index(slab, block, "realloc");
    if (blocks_heap.collector)
        clear_retired(slab, index / SLAB_WORD_BLOCKS, slab_bit(index));
    bool large = slab_is_large(slab);
    if (size <= usable && size > usable / 2 && !large)
        return block;
    void *moved = NULL;
    if (large && size > CLASS_LARGEST)
        moved = large_block_resize(slab, size);
    if (moved)
        return moved;
    if (large && size > usable && size > CLASS_LARGEST && size <= (size_t)PTRDIFF_MAX)
        moved = large_block_alloc_to_grow(size);
    if (!moved)
        moved = blocks_alloc(size);
    if (!moved)
        return size <= usable ? block : NULL;
    memcpy(moved, block, usable < size ? usable : size);
    if (blocks_heap.collector && blocks_heap.collector->moves)
        blocks_heap.collector->moves(block, moved);
    free_moved(block);
    return moved;
}

/* There are no arenas to count. */
void blocks_tune(enum tuning parameter, size_t value)
{
    if (parameter == TUNE_LARGE_BYTES)
        large_blocks_map_from(value);
    if (parameter != TUNE_FREE_BYTES)
        return;
    lock_acquire(&blocks_heap.lock);
    blocks_heap.runs.decay.asked = value / GRANULE_BYTES;
    lock_release(&blocks_heap.lock);
}

struct block_waste blocks_waste(const void *block)
{
    (void)block;
    return (struct block_waste){0};
}

bool blocks_init(unsigned retain_percent, const struct blocks_collector *collector)
{
    if (fast_table_covers(0))
        return true;
    fork_chain_add(&blocks_heap.common_lock);
    fork_chain_add(&blocks_heap.lock);
    if (!fast_table_init(collector != NULL))
        return false;
    blocks_heap.collector = collector;
    blocks_heap.rows = collector && collector->rows > SLAB_ROWS ? collector->rows : SLAB_ROWS;
    runs_init(&blocks_heap.runs, retain_percent, coarse_ns);
    records_init();
    return true;
}

/* Those of a heap without a collector on it. */
struct own_options {
    struct blocks_options blocks;
    uint64_t populate, huge;
};

static bool init_default(const void *options)
{
    const struct own_options *chosen = options;
    if (!blocks_init((unsigned)chosen->blocks.retain_percent, NULL))
        return false;
    blocks_heap.populate_from = chosen->populate;
    blocks_heap.runs.huge_from = chosen->huge / GRANULE_BYTES;
    return true;
}

static const struct option_description options[] = {
    BLOCKS_OPTIONS(offsetof(struct own_options, blocks)),
    {"populate",
     "slabs of a size class, a thread, from which on a new one gets all its pages at once; 0: "
     "never",
     NUMBER_IN(0, struct own_options, populate), .maximum = 1000000, .initial = 16},
    {"huge", "bytes in use from which on the heap grows by huge pages; 0: never",
     NUMBER_IN(0, struct own_options, huge), .maximum = (uint64_t)1 << 46, .initial = 0},
    {.key = ""},
};

/* Gives back all that is free. */
size_t blocks_trim(void)
{
    blocks_flush_thread();
    free_empty_abandoned();
    if (!lock_enter(&blocks_heap.lock)) {
        frozen_end();
        return 0;
    }
    size_t bytes = runs_trim(&blocks_heap.runs);
    lock_release(&blocks_heap.lock);
    return bytes;
}

const struct allocator blocks_default = {
    .name = "blocks",
    .preset = "default",
    .preset_title = "a heap for each thread",
    .title = "segregated fit, slabs of one size, a thread each (today's)",
    .source = "after Berger et al. 2000; Leijen, Zorn, de Moura 2019",
    .options = options,
    .init = init_default,
    .alloc = blocks_alloc,
    .free = blocks_free,
    .resize = blocks_resize,
    .fork_child = blocks_fork_child,
    .trim = blocks_trim,
    .alloc_zeroed = blocks_alloc_zeroed,
    .alloc_aligned = blocks_alloc_aligned,
    .usable_size = blocks_usable_size,
    .walk = blocks_walk,
    BLOCKS_FUNCTIONS,
};
