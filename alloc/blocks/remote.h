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
/* Puts a slab that is `queued` into its owning thread's queue, or that of abandoned slabs. */
void push_to_owner(struct slab *slab);
/* All that is in a queue, linked through next_queued; NULL: nothing. */
struct slab *take_remote_queue(struct remote_queue *queue);
/* Makes the remote frees so far free blocks. For the slab's owning thread. */
void take_remote_frees(struct slab *slab);

#endif
