/* SPDX-License-Identifier: MIT
 *
 * records.h: the records of slabs and thread heaps; see records.c. With the heap's lock held.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_RECORDS_H
#define ALLOTROPE_ALLOC_BLOCKS_RECORDS_H

#include "alloc/blocks/heap.h"

void records_init(void);
/* Memory of our own in which no block lies and a collection need not look. */
bool enter_private_memory(void *start, size_t bytes);
struct slab *new_slab_record(size_t words);
void drop_slab_record(struct slab *slab);
struct thread_heap *new_thread_heap_record(void);
/* Visits every thread heap, those without a thread too. In a stopped world the lock is not
 * needed. */
void each_thread_heap(void (*visit)(void *argument, struct thread_heap *heap), void *argument);
/* Visits every slab's record, unused ones too, but for those of blocks that were made during a
 * fork. */
void each_slab_record(void (*visit)(void *argument, struct slab *slab), void *argument);

#endif
