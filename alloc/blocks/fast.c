/* SPDX-License-Identifier: MIT
 *
 * fast.c: the fast paths of malloc and free.
 *
 * Memory is cut into slabs of blocks of one size (slab.h, size_class.h). A slab belongs to one
 * thread, which alone hands out its blocks, so neither path takes a lock or makes an atomic change
 * ([owning thread writes], heap.h):
 *
 *     malloc   size -> the thread's bin for it (bin.h)
 *              the block that the thread freed last: the head of the local free list
 *              none is there: the lowest bit of the current slab's word of free bits
 *              the word is zero: alloc_slowly
 *
 *     free     address -> live bit and bin (fast_table.h)
 *              the bin is another thread's, or not known: free_slowly
 *              the live bit is not set: free_slowly, for a second free, for an address that is no
 *              block's start, and for a suspect (slab.h)
 *              the block goes to the head of the local free list
 *              that is full: the block's free bit is set
 *
 * Either changes the block's live bit. The slab's record is touched only where the local free list
 * is full: its free bit, and how many frees the slab waits for until it is put in another list
 * (free_to_slab).
 *
 * A collection may stop the thread before any instruction. What it finds then:
 *
 *     malloc, local free list                 before it, the block is     relies on
 *       load the head and its link            in the list                 [whole list]
 *       store the link as the head            in the list                 [whole list]
 *       live bit: load, set, store            [on its way]                [list before live bit],
 *                                                                         [late live bit]
 *     malloc, word of free bits
 *       copy the word                         free
 *       clear the free bit                    free, and in a register     [single instruction]
 *       live bit: load, set, store            [on its way]                [list before live bit],
 *                                                                         [late live bit]
 *     free
 *       live bit: load, clear, store          the program's               [late live bit]
 *       store the head as the block's link    [on its way]
 *       store the block as the head           [on its way]                [whole list]
 *       or, where that is full:
 *       set the free bit                      [on its way]                [single instruction]
 *
 * malloc sets the live bit last: [list before live bit]. free clears it first, since all else
 * depends on what it was.
 *
 * Sources: Berger et al., "Hoard", ASPLOS 2000 (ownership by thread); Leijen, Zorn, de Moura,
 * "Mimalloc", APLAS 2019 (frees of the thread and of others apart); Boehm & Weiser, SP&E 1988
 * (bits apart from the blocks).
 */
#include "alloc/blocks/fast.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/slow.h"

void *blocks_alloc(size_t size)
{
    return alloc_fast(size);
}

void blocks_free(void *block)
{
    size_t unit = fast_table_unit(block), granule = unit / UNITS_PER_GRANULE;
    if (__builtin_expect(fast_table_covers(granule), 1)) {
        struct bin *bin = atomic_load_explicit(&fast_table.bins[granule], memory_order_relaxed);
        if (__builtin_expect(is_own(bin) && clear_live(unit), 1)) {
            if (__builtin_expect(--bin->local_free_room < 0, 0))
                free_to_slab(bin, block);
            else
                put_local_free(bin, block);
            return;
        }
    }
    free_slowly(block);
}
