/* SPDX-License-Identifier: MIT
 *
 * collector.c: what a collector asks of the heap; what the heap asks of it is in
 * ask_collector.h.
 *
 * A collection in one stop, step by step (a cycle of several: gc/cycle/concurrent.h; a sweep after
 * the stop: late_sweep.h):
 *
 *     takes the heap's lock                             blocks_lock
 *     stops the other threads                           [no stopped holder], heap.h
 *     sets the free bits of blocks in local free lists  blocks_set_local_free_bits(true)
 *     marks, and sweeps by the slabs' bits
 *     clears those free bits again                      blocks_set_local_free_bits(false)
 *     lets the threads go on
 *     has each thread rebin its slabs when it next      blocks_swept
 *       needs one
 */
#include "alloc/blocks/blocks.h"

#include "alloc/blocks/large.h"
#include "alloc/blocks/late_sweep.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/quarantine.h"
#include "alloc/blocks/records.h"
#include "vm/single_threaded.h"

void blocks_lock(void)
{
    lock_acquire(&blocks_heap.lock);
}

void blocks_unlock(void)
{
    lock_release(&blocks_heap.lock);
}

void blocks_state(const void **start, size_t *bytes)
{
    *start = &blocks_heap;
    *bytes = sizeof blocks_heap;
}

size_t blocks_used_bytes(void)
{
    return (blocks_heap.used_granules + blocks_heap.mapped_granules) * GRANULE_BYTES;
}

bool blocks_has_late_live_bits(void)
{
    return blocks_heap.collector && blocks_heap.collector->late_live_bits;
}

bool blocks_have_freed(void)
{
    return !blocks_has_late_live_bits() ||
           atomic_load_explicit(&blocks_heap.block_was_freed, memory_order_relaxed);
}

void blocks_forget_frees(void)
{
    atomic_store_explicit(&blocks_heap.block_was_freed, false, memory_order_relaxed);
}

void blocks_note_freed(bool note)
{
    atomic_store_explicit(&blocks_heap.notes_freed, note, memory_order_relaxed);
}

void blocks_retain(size_t bytes)
{
    blocks_heap.runs.decay.least = bytes / GRANULE_BYTES;
}

size_t blocks_taken_bytes(void)
{
    return quarantine_on ? quarantine_retired_bytes()
                         : atomic_load_explicit(&blocks_heap.taken_bytes, memory_order_relaxed);
}

/* The world is stopped: [whole list]. */
static void set_bits_of_list(const struct bin *bin, bool free)
{
    for (void *block = bin->local_free; block; block = *(void **)block) {
        struct slab *slab = slab_at(block);
        bool exact;
        size_t index = slab_index(slab, block, &exact);
        struct slab_word *word = &slab->words[index / SLAB_WORD_BLOCKS];
        if (free)
            slab_set_free(word, slab_bit(index));
        else
            slab_clear_free(&word->free, slab_bit(index));
    }
}

static void set_bits_of_lists(void *free, struct thread_heap *heap)
{
    for (size_t bin = 0; heap->alive && bin < SIZE_CLASSES; bin++)
        set_bits_of_list(&heap->bins[bin], *(const bool *)free);
}

void blocks_set_local_free_bits(bool free)
{
    each_thread_heap(set_bits_of_lists, &free);
}

static void free_if_dead(void *argument, struct slab *slab)
{
    (void)argument;
    if (slab_is_large(slab) && (slab->words[0].free & 1))
        large_block_free_locked(slab);
}

static void sweep_if_large(void *argument, struct slab *slab)
{
    if (!slab_is_large(slab))
        return;
    sweep_large_late(slab);
    free_if_dead(argument, slab);
}

static void swept(bool late)
{
    atomic_store_explicit(&blocks_heap.sweep_was_late, late, memory_order_relaxed);
    atomic_fetch_add_explicit(&blocks_heap.sweeps, 1, memory_order_release);
    blocks_each_slab(late ? sweep_if_large : free_if_dead, NULL);
    while (runs_give_back_some(&blocks_heap.runs) > 0)
        ;
}

void blocks_swept(void)
{
    swept(false);
}

void blocks_swept_late(void)
{
    swept(true);
}

void blocks_young_swept(void)
{
    blocks_each_young(free_if_dead, NULL);
    while (runs_give_back_some(&blocks_heap.runs) > 0)
        ;
}

void blocks_each_range(blocks_range_visitor *visit, void *argument)
{
    struct segment segment;
    for (size_t i = 0; area_segment(&blocks_heap.runs.area, i, &segment); i++)
        visit(argument, segment.start, segment.end, NULL);
    for (const struct slab *slab = blocks_heap.mappings; slab; slab = slab->next)
        visit(argument, slab->base, slab->base + slab->granules * GRANULE_BYTES, slab);
}

/* A free that is ignored is one store, that of the retired bit. A thread that is stopped before it
 * has the block in a register: [on its way]. Otherwise a collection might free the block, and the
 * bit be the next block's. A thread that is stopped behind it does not touch the block any more.
 * [retired is atomic]. The locked instruction costs a single thread a fifth of malloc and free
 * together. */
void blocks_retire(const void *block, const char *function)
{
    struct slab *slab = slab_of_block(block, function);
    if (!slab)
        return;
    size_t index = live_index(slab, block, function);
    slab_set_retired(&slab->words[index / SLAB_WORD_BLOCKS], slab_bit(index), single_threaded());
    keep_in_register(block);
}

void blocks_use_again(const void *block)
{
    struct slab *slab = slab_of_block(block, "realloc");
    if (!slab)
        return;
    sweep_before_free(slab);
    size_t index = live_index(slab, block, "realloc");
    clear_retired(slab, index / SLAB_WORD_BLOCKS, slab_bit(index));
}

void blocks_unretire(const void *block)
{
    struct slab *slab = slab_at(block);
    size_t index;
    if (slab && find_live(slab, block, &index))
        clear_retired(slab, index / SLAB_WORD_BLOCKS, slab_bit(index));
}
