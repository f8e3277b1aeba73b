/* SPDX-License-Identifier: MIT
 *
 * threads.h: thread heaps; see threads.c.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_THREADS_H
#define ALLOTROPE_ALLOC_BLOCKS_THREADS_H

#include "alloc/blocks/heap.h"

/* How many blocks of a size a local free list may have. */
int32_t local_free_limit(size_t block_bytes);
/* False for a thread that has ended as far as we know, or without memory for a record. */
bool start_thread(void);
/* The heap of the threads that have none of their own. NULL: no memory. With common_lock held. */
struct thread_heap *common_heap(void);
/* A slab without a thread that has a free block, as this thread's. NULL: there is none. No lock
 * held. */
struct slab *adopt_slab(unsigned class_index, struct thread_heap *heap);
/* Slabs without a thread all of whose blocks have been freed serve any size from here on. No lock
 * held. */
void free_empty_abandoned(void);

#endif
