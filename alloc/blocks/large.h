/* SPDX-License-Identifier: MIT
 *
 * large.h: blocks above 32 KiB; see large.c. No lock held, unless it says otherwise.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_LARGE_H
#define ALLOTROPE_ALLOC_BLOCKS_LARGE_H

#include "alloc/blocks/heap.h"

/* A block of at least `size` bytes, in an operation. wish: RUN_ZERO makes all of them zero. NULL:
 * out of memory. */
void *large_block_alloc(size_t alignment, size_t size, enum run_wish wish);
/* For a block that has outgrown its place and will again: a mapping, which grows without a copy.
 * NULL also while the heap is frozen. */
void *large_block_alloc_to_grow(size_t size);
/* From now on a block of so many bytes or more is a mapping, if it is above 32 KiB. Any thread. */
void large_blocks_map_from(size_t bytes);
/* As large_block_alloc, while the heap is frozen. All bytes are zero. */
void *large_block_alloc_frozen(size_t alignment, size_t size);
/* The slab's block, which was live when the caller looked. Whether the heap is frozen or not. */
void large_block_free(struct slab *slab, void *block);
/* With the lock held. */
void large_block_free_locked(struct slab *slab);
/* With the lock held: takes contents and all access away, until the block's free gives the memory
 * to others. False: the kernel refuses, and nothing has changed. */
bool large_block_close(struct slab *slab);
/* In place, or by moving its pages; NULL when neither is possible, or while the heap is frozen. */
void *large_block_resize(struct slab *slab, size_t size);
/* Without moving it. False: it cannot be, and nothing has changed. */
bool large_block_resize_in_place(struct slab *slab, size_t size);

#endif
