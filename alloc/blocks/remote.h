/* SPDX-License-Identifier: MIT
 *
 * remote.h: frees of blocks of other threads' slabs; see remote.c.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_REMOTE_H
#define ALLOTROPE_ALLOC_BLOCKS_REMOTE_H

#include "alloc/blocks/heap.h"

/* A block of a slab that is another thread's, or nobody's. Aborts when it has been freed already.
 */
void push_remote_free(struct slab *slab, void *block, size_t index);
/* Remote bits were set: queues the slab, unless it is queued: [bit before queue]. */
void offer_to_owner(struct slab *slab);
/* Puts a slab that is `queued` into its owning thread's queue; into that of abandoned slabs, if it
 * has no such thread or one that exits. */
void push_to_owner(struct slab *slab);
/* Opens a thread's queue as the thread starts. Closes it as the thread exits, before the thread
 * looks at its slabs' remote frees for the last time. With the lock held. */
void open_remote_queue(struct thread_heap *heap);
void close_remote_queue(struct thread_heap *heap);
/* All that is in a queue that is open, linked through next_queued; NULL: nothing. */
struct slab *take_remote_queue(struct remote_queue *queue);
/* Makes the remote frees so far free blocks. For the slab's owning thread. */
void take_remote_frees(struct slab *slab);

#endif
