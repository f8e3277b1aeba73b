/* SPDX-License-Identifier: MIT
 *
 * checked.h: `blocks:checked`, a heap that notices its misuse.
 *
 * It hands out the slots of `blocks` (alloc/blocks), and changes none of its structures. What it
 * adds, in the order of a block's life:
 *
 *     malloc   the slot is one of the free ones of a word, at random (slots.c)
 *              what its last block left there is looked at: trailer, fill
 *              the trailer says what the block is; slack up to it is filled (trailer.h)
 *     use      usable size = requested size
 *     free     own trailer and slack, the trailer of the slot before; size, alignment, operator
 *              the block is filled, and the trailer says that it is dead, and who freed it
 *              it waits among DELAYED others of its thread; one of those, at random, becomes free
 *     exit     all trailers and all fills are looked at (sweep.c)
 *
 * A dead block has no links: those that the thread frees become free bits of the slab, not members
 * of the local free list; so there is nothing in it that a write could turn against the heap.
 *
 * Large blocks lie between guard pages, right-aligned to the one behind; freed ones have no access
 * at all until some others were freed (guarded.c). Blocks of no bytes are addresses in a range
 * without access (zero_size.c).
 *
 * Who writes what: as in alloc/blocks/heap.h. A slot's bytes and trailer are written by who
 * allocates or frees the block. There is no collector. Three meet what a preempted thread leaves:
 * other threads, which read the trailer of a neighbour's slot; sweep_at_exit; and the child of a
 * fork, which does not have that thread. What a free leaves after each step:
 *
 *     own slab
 *       live bit cleared     neither live nor waiting
 *       trailer: dead        the same                           [always a trailer]
 *       block filled         the same                           [trailer before contents]
 *       place in `delay`     waits; the block that had the place is in a register
 *       that one's free bit  free                               [single instruction]
 *     another thread's slab
 *       trailer: dead        not live by its trailer            [always a trailer]
 *       block filled         the same                           [trailer before contents]
 *       remote bit           freed                              [remote until free]
 *
 * The child loses a slot that is neither live, nor waiting, nor free: it is not handed out again.
 *
 * [always a trailer]
 *     The word at a slot's end is zero or a trailer, from the making of the slab on
 *     (clear_trailers), whatever the slot is. Any thread may decode any slot's at any time; between
 *     two trailers there is one store.
 * [trailer before contents]
 *     While a slot's trailer says live its slack is whole: malloc and realloc fill the slack, then
 *     store the trailer; free stores the dead trailer, then fills the block. While its trailer
 *     says dead the fill is whole, if the slot is free or its block waits: free has filled it
 *     before, and malloc takes the slot before it writes to it. So who finds a dead trailer, then
 *     a fill that is not whole, then the slot at rest and the same trailer again, has found a
 *     write after free.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_CHECKED_H
#define ALLOTROPE_ALLOC_CHECKED_CHECKED_H

#include "alloc/allocator.h"

extern const struct allocator blocks_checked;

#endif
