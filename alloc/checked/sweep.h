/* SPDX-License-Identifier: MIT
 *
 * sweep.h: looking at all slots: of a new slab, and at the end of the process.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_SWEEP_H
#define ALLOTROPE_ALLOC_CHECKED_SWEEP_H

#include "alloc/blocks/heap.h"

/* Clears the words of a new slab where trailers will be, and the word at its end, where no slot may
 * reach: the memory may have been another slab's, with trailers in it. zero: the memory is zero
 * already. With the heap's lock held. */
void clear_trailers(const struct slab *slab, bool zero);

/* As blocks_walk, with the blocks as the program has them. */
void checked_walk(heap_visitor *visit, void *argument);

/* For a block at a granule's start: whether the last word before it is whole. True too where that
 * is not known. A slab of another thread is not looked at: its shape may change meanwhile. */
bool is_whole_before_granule(const char *block) __attribute__((noinline));

/* Reports the blocks that were written round, or after their free. Other threads may run. */
void sweep_at_exit(void);

#endif
