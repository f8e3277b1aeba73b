/* SPDX-License-Identifier: MIT
 *
 * lookup.h: from an address of the program to its slab and block. Any thread, no lock.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_LOOKUP_H
#define ALLOTROPE_ALLOC_BLOCKS_LOOKUP_H

#include "alloc/blocks/heap.h"
#include "vm/granule_map.h"

_Noreturn void report_not_live(const char *function, const void *block)
    __attribute__((noinline, cold));
void report_stranger(const char *function, const void *block) __attribute__((noinline, cold));

/* Whether a collection has found a block dead and left it. */
static inline bool block_is_suspect(struct slab *slab, size_t index)
{
    return (__atomic_load_n(slab_suspects(slab, index / SLAB_WORD_BLOCKS), __ATOMIC_RELAXED) &
            slab_bit(index)) != 0;
}

/* Blocks of a word are freed: [suspects are live]. Bits that are clear are not written. */
static inline void clear_suspects(struct slab *slab, size_t word, uint64_t blocks)
{
    uint64_t *suspects = slab_suspects(slab, word);
    if (__builtin_expect((__atomic_load_n(suspects, __ATOMIC_RELAXED) & blocks) != 0, 0))
        __atomic_fetch_and(suspects, ~blocks, __ATOMIC_RELAXED);
}

/* Blocks of a word are freed for good, or used again. Only where there is a collector: elsewhere
 * the word may hold something else (alloc/checked). */
static inline void clear_retired(struct slab *slab, size_t word, uint64_t blocks)
{
    slab_clear_retired(&slab->words[word], blocks);
}

/* The program uses a block whose live bit is clear: reports a suspect to the collector, aborts for
 * anything else. */
void expect_suspect(const char *function, const void *block) __attribute__((noinline, cold));

/* The slab of a block that the program hands in. An address outside the heap is reported, and NULL
 * returned. An address in the heap's memory that lies in no slab ends the process. */
static inline struct slab *slab_of_block(const void *block, const char *function)
{
    struct owner *owner = granule_map_get(block);
    if (!owner) {
        report_stranger(function, block);
        return NULL;
    }
    if (owner->kind != OWNER_SLAB)
        report_not_live(function, block);
    return (struct slab *)owner;
}

/* Whether a block of a slab, at the index, is the program's and no suspect. The live bit tells it
 * from one in a local free list; the slab's bits tell what other threads have freed, and a [late
 * live bit]. */
static inline bool block_is_live(struct slab *slab, size_t index)
{
    return slab_block_is_live(slab, index) &&
           (slab_is_large(slab) ? !block_is_suspect(slab, index)
                                : unit_is_live(fast_table_unit(slab_block(slab, index))));
}

/* The index of the live block that begins at an address of the slab. False: none does. */
static inline bool find_live(struct slab *slab, const void *address, size_t *index)
{
    return slab_find(slab, address, index) && block_is_live(slab, *index);
}

/* The index of a block. Aborts when it is neither a live block of the slab nor a suspect. */
static inline size_t live_index(struct slab *slab, const void *block, const char *function)
{
    size_t index;
    if (!find_live(slab, block, &index))
        expect_suspect(function, block);
    return index;
}

#endif
