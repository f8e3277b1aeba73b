/* SPDX-License-Identifier: MIT
 *
 * surplus.h: free memory that the heap should no longer keep; see surplus.c.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_SURPLUS_H
#define ALLOTROPE_ALLOC_BLOCKS_SURPLUS_H

#include "alloc/blocks/heap.h"

/* Releases the heap's lock after an operation that moved so many granules. Then gives surplus back
 * to the kernel: as many granules at most, or one step if that is more. SIZE_MAX: all the
 * surplus. */
void release_and_give_back(size_t granules);

#endif
