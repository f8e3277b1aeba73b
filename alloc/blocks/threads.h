/* SPDX-License-Identifier: MIT
 *
 * threads.h: thread heaps; see threads.c.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_THREADS_H
#define ALLOTROPE_ALLOC_BLOCKS_THREADS_H

#include "alloc/blocks/heap.h"

/* How many blocks of a size a local free list may have. */
int32_t local_free_limit(size_t block_bytes);
/* Gives the calling thread a heap. False: the thread has ended as far as we know, or the heap is
 * frozen, or there is no memory for a record. */
bool start_thread(void);
/* The heap of the threads that have none of their own. NULL: no memory. With common_lock held. */
struct thread_heap *common_heap(void);
/* Makes an abandoned slab with a free block `heap`'s own. NULL: there is none. No lock held. */
struct slab *adopt_slab(unsigned class_index, struct thread_heap *heap);
/* Gives back the abandoned slabs all of whose blocks have been freed, so that their memory serves
 * any size. Does nothing while the heap is frozen. No lock held. */
void free_empty_abandoned(void);

#endif
