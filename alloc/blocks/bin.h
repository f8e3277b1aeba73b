/* SPDX-License-Identifier: MIT
 *
 * bin.h: a thread's stock of one size class.
 *
 *     local_free  -> block -> block -> NULL     freed by the thread, the newest first
 *     free_word   -> 0010 1100 ...              free bits of 64 blocks of the current slab
 *     current     -> slab                       its words are gone through one after the other
 *     available   -> slab -> slab -> NULL       the next to become current
 *     full        -> slab -> slab -> NULL
 *
 * malloc takes the first of the local free list, then the lowest free block of the word, then the
 * slow path (slow.c) finds another word. free puts the block into the local free list; when that
 * has no room the block's free bit is set (slabs.c). Only the owning thread uses a bin; in a
 * stopped world the collector walks the local free lists ([whole list], heap.h) and asks for the
 * current slab ([current is young], young.c). In quarantine it looks at the word, too: where
 * free_word is set, `current` is its slab ([looked at before use]).
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_BIN_H
#define ALLOTROPE_ALLOC_BLOCKS_BIN_H

#include "alloc/blocks/fast_table.h"
#include "alloc/blocks/quarantine.h"
#include "alloc/blocks/size_class.h"

struct bin {
    void *local_free;    /* linked through the blocks' first word */
    uint64_t *free_word; /* of the current slab; NULL: there is none to look at */
    char *word_base;     /* the block that its bit 0 stands for */
    uint32_t block_bytes;
    int32_t local_free_room; /* how many blocks more the list may take */
    struct slab *current;
    struct slab *available, *full; /* lists by slab->next */
    uint64_t rebinned_sweep;       /* the last sweep after which its slabs were rebinned */
};

_Static_assert(sizeof(struct bin) == BIN_BYTES, "a cache line");

/* Needs a block in the list. [whole list]: the head moves on by one store. [on its way]: `block` is
 * in a register from there to its live bit, which comes last: [list before live bit]. */
static inline void *take_local_free(struct bin *bin)
{
    void *block = bin->local_free;
    bin->local_free = *(void **)block;
    bin->local_free_room++;
    set_live(block);
    return block;
}

/* For a block that is not live any more, where there was room. [whole list]: the block's link is
 * stored before the head. (The compiler keeps that order, since the two stores may alias.) */
static inline void put_local_free(struct bin *bin, void *block)
{
    *(void **)block = bin->local_free;
    bin->local_free = block;
}

/* 0: no block is free there. */
static inline uint64_t current_free_word(const struct bin *bin)
{
    return bin->free_word ? *bin->free_word : 0;
}

/* Takes the lowest block of `word`, a copy of the bin's free word that is not zero. [on its way]:
 * the block is in a register before its free bit is cleared. [single instruction]: a sweep may set
 * other bits of the word between the copy and the change. */
static inline void *take_lowest_free(const struct bin *bin, uint64_t word)
{
    void *block = bin->word_base + (uint32_t)__builtin_ctzl(word) * bin->block_bytes;
    keep_in_register(block);
    slab_clear_free(bin->free_word, word & -word);
    set_live(block);
    return block;
}

/* There is no word while the base changes. A signal handler that allocates in between would take a
 * block of one word by the base of the other: it comes to the slow path, which tells it. */
static inline void point_at_word(struct bin *bin, size_t word)
{
    struct slab *slab = bin->current;
    bin->free_word = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    bin->word_base = slab_block(slab, word * SLAB_WORD_BLOCKS);
    atomic_signal_fence(memory_order_seq_cst);
    bin->free_word = &slab->words[word].free;
}

/* The word of the current slab that the bin points at. */
static inline size_t current_word(const struct bin *bin)
{
    const char *word = (const char *)bin->free_word - offsetof(struct slab_word, free);
    return (size_t)((const struct slab_word *)(const void *)word - bin->current->words);
}

/* Moves on to a word with a free block, from `first` to the end of the current slab. False: there
 * is none. In this order: [looked at before use] (quarantine.h). */
static inline bool find_word(struct bin *bin, size_t first)
{
    size_t words = slab_words(bin->current);
    for (size_t i = first; i < words; i++)
        if (bin->current->words[i].free) {
            if (quarantine_on)
                quarantine_look_before_use(bin->current, i);
            point_at_word(bin, i);
            if (quarantine_on)
                quarantine_look_before_use(bin->current, i);
            return true;
        }
    return false;
}

/* The slab that was current is then on no list. */
static inline void leave_current(struct bin *bin)
{
    bin->free_word = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    bin->current = NULL;
}

#endif
