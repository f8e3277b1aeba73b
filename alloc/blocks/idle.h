/* SPDX-License-Identifier: MIT
 *
 * idle.h: memory of free blocks in slabs that a thread does not use; see idle.c.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_IDLE_H
#define ALLOTROPE_ALLOC_BLOCKS_IDLE_H

#include "alloc/blocks/heap.h"

/* Goes on with the round under way, or begins one if it is time. Called by the thread that has the
 * heap, in its slow path. now_ns: of a clock as struct runs has it. */
void give_back_idle(struct thread_heap *heap, uint64_t now_ns);

/* Looks at the clock, then does that. In an operation. */
void look_for_idle_now(struct thread_heap *heap);

/* For each malloc that takes the slow path. */
static inline void look_for_idle(struct thread_heap *heap)
{
    if (__builtin_expect(heap->calls_until_look-- == 0, 0))
        look_for_idle_now(heap);
}

#endif
