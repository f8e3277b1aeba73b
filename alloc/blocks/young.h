/* SPDX-License-Identifier: MIT
 *
 * young.h: the slabs that a minor collection looks at; see young.c. What the collector asks for is
 * in blocks.h.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_YOUNG_H
#define ALLOTROPE_ALLOC_BLOCKS_YOUNG_H

#include "alloc/blocks/heap.h"

/* A block may be taken from the slab, without a look at it, until the next collection. To be called
 * before the first is taken, and after bin->current tells of the slab: [current is young]. Any
 * thread. Does nothing where there are no generations. */
void enter_young(struct slab *slab);

/* Visits every current slab, and the slab of every block in a local free list: once for each such
 * block. The world is stopped. */
void each_threads_slab(void (*visit)(struct slab *slab));

/* In the child of a fork: the list is empty, and the next collection a full one. */
void forget_young(void);

#endif
