/* SPDX-License-Identifier: MIT
 *
 * fast_table.h: what malloc and free find from the address of a block alone.
 *
 *     address - base --> unit (16 bytes) ----> live_bits   set: a live block of a slab starts here
 *                        granule (64 KiB) ---> bins        the bin that its blocks are freed to
 *
 * So a free reads three cache lines (live bits, table, bin) and no record of a slab. Both lie at
 * fixed distances from the window, and nothing of them is reserved:
 *
 *     | live bits: window / 128 | ............ | bins: window / 8192 | ... | window |
 *
 * The live bits are the window's shadow and grow with it. The table of bins grows with the slabs:
 * by 64 KiB for each 512 MiB of window that a slab lies in. Where the kernel refuses, blocks that
 * lie behind what the table covers are freed by the slow path.
 *
 * A live bit tells less than whether the program has the block: a suspect's is clear (slab.h), and
 * that of a free block may be set ([late live bit]).
 *
 * Invariants (heap.h): [owning thread writes], [late live bit], [NULL is always allowed].
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_FAST_TABLE_H
#define ALLOTROPE_ALLOC_BLOCKS_FAST_TABLE_H

#include "alloc/blocks/slab.h"
#include "vm/window.h"

struct bin;

enum { UNITS_PER_GRANULE = 1 << 12, LIVE_BITS_PER_WORD = 64 };

struct fast_table {
    uintptr_t base; /* the window's */
    _Atomic uint64_t *live_bits;
    /* Where the word for address 0 would be, so that a block's is found without `base`. */
    uintptr_t live_origin;
    /* By granule: the bin of the thread heap that owns the slab. NULL: no slab, an abandoned one,
     * or one whose remote frees wait: its owning thread must look at them to find a second free. */
    struct bin *_Atomic *bins;
    /* How many granules of the window `bins` covers, from its front. Grows; writer: the holder of
     * the heap's lock. An entry is mapped before it is counted. */
    size_t granules;
};

extern struct fast_table fast_table __attribute__((visibility("hidden")));

/* The unit that begins at an address. If none does, or if the address lies outside the window, the
 * number is too large for every table, as that of window_unit. */
static inline size_t fast_table_unit(const void *address)
{
    size_t offset = (uintptr_t)address - fast_table.base;
    return offset >> UNIT_SHIFT | offset << (64 - UNIT_SHIFT);
}

static inline bool unit_is_live(size_t unit)
{
    return (atomic_load_explicit(&fast_table.live_bits[unit / LIVE_BITS_PER_WORD],
                                 memory_order_relaxed) >>
                unit % LIVE_BITS_PER_WORD &
            1) != 0;
}

/* Sets the live bit of a block of a slab. Load, change and store are three instructions:
 * [owning thread writes], [late live bit]. They are written out because the compiler computes the
 * word's address apart, and makes six of the change; one instruction that changes memory takes
 * longer than the three. The fence is for the compiler: [list before live bit]. */
static inline void set_live(const void *block)
{
    atomic_signal_fence(memory_order_seq_cst);
    uintptr_t unit = (uintptr_t)block >> UNIT_SHIFT;
    uint64_t *word = (uint64_t *)fast_table.live_origin + unit / LIVE_BITS_PER_WORD, bits;
    __asm__("movq %0, %1\n\tbtsq %2, %1\n\tmovq %1, %0"
            : "+m"(*word), "=&r"(bits)
            : "r"(unit)
            : "cc");
}

/* As set_live. False: it was not set. */
static inline bool clear_live(size_t unit)
{
    uint64_t *word = (uint64_t *)fast_table.live_bits + unit / LIVE_BITS_PER_WORD, bits;
    bool was_live;
    __asm__("movq %0, %1\n\tbtrq %3, %1\n\tmovq %1, %0"
            : "+m"(*word), "=&r"(bits), "=@ccc"(was_live)
            : "r"(unit)
            : "cc");
    return was_live;
}

/* Whether a granule has an entry in fast_table.bins. Needs no order: whoever has a block of a slab
 * has what was written before the slab was made. One instruction that reads and compares; of an
 * atomic load the compiler makes two. */
static inline bool fast_table_covers(size_t granule)
{
    bool covered;
    __asm__("cmpq %2, %1" : "=@ccb"(covered) : "r"(granule), "m"(fast_table.granules) : "cc");
    return covered;
}

/* Maps the table's first part. collected: a collection must not take it for roots. False: the
 * kernel refuses. */
bool fast_table_init(bool collected);

/* Makes the table cover the granules of a new slab, if the kernel gives the memory. With the heap's
 * lock held. */
void fast_table_cover(const char *base, size_t granules);

/* Enters a bin for the granules of a slab; NULL: frees of its blocks go the slow way. NULL may come
 * from any thread, a bin from the slab's owning thread alone: [NULL is always allowed]. */
void fast_table_set_bin(const struct slab *slab, struct bin *bin);

/* Clears the live bits of memory that becomes a slab, and has a collection not take them for roots.
 * With the heap's lock held. */
void enter_live_bits(char *base, size_t granules);

#endif
