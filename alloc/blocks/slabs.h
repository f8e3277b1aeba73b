/* SPDX-License-Identifier: MIT
 *
 * slabs.h: slabs, their lists and states; see slabs.c. For the owning thread, unless it says
 * otherwise.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_SLABS_H
#define ALLOTROPE_ALLOC_BLOCKS_SLABS_H

#include "alloc/blocks/heap.h"

static inline void push_slab(struct slab **list, struct slab *slab)
{
    slab->previous = NULL;
    slab->next = *list;
    if (*list)
        (*list)->previous = slab;
    *list = slab;
}

static inline void unlink_slab(struct slab **list, struct slab *slab)
{
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        *list = slab->next;
    if (slab->next)
        slab->next->previous = slab->previous;
}

static inline void set_shape(struct slab *slab, char *base, size_t block_bytes, uint32_t capacity)
{
    slab->owner.kind = OWNER_SLAB;
    slab->base = base;
    slab->block_bytes = block_bytes;
    slab->reciprocal = capacity == 1 ? 1 : UINT64_MAX / block_bytes + 1;
    slab->capacity = capacity;
}

/* How many granules a slab of a class has. */
size_t slab_granules(unsigned class_index);
uint32_t count_free(const struct slab *slab);
/* For whoever need not know how many: looks at no more words than it takes. */
enum free_blocks { NONE_FREE, SOME_FREE, ALL_FREE };
enum free_blocks free_blocks_of(const struct slab *slab);
/* Makes a thread heap the owner of a slab, NULL: abandons it; and sets the slab's entries in the
 * table of bins. With the lock held; not needed where the slab keeps its owner. */
void set_thread_heap(struct slab *slab, struct thread_heap *heap);
/* A slab all of whose blocks are free. NULL: out of memory. With the lock held. */
struct slab *new_slab(unsigned class_index, struct thread_heap *heap);
/* Gives an empty slab's memory back. It is on no list. With the lock held. */
void release_slab(struct slab *slab);

/* A block of the thread's slabs, not live any more, that goes to no local free list. Counts it as
 * room of the bin's list. */
void free_to_slab(struct bin *bin, void *block);
/* For a block of the thread's slab that is not live any more. Returns its slab if that is to be
 * rebinned, else NULL. */
struct slab *set_block_free(void *block);
/* Gives the blocks in local free lists to their slabs. */
void flush_local_free(struct thread_heap *heap);
/* Gives the first block of a bin's local free list, which is not empty, to its slab. True: the slab
 * was rebinned, which may have released it. */
bool flush_one(struct bin *bin);
/* As flush_local_free, of one bin, whose slabs are about to be abandoned: so none is
 * rebinned. */
void flush_bin_at_exit(struct bin *bin);

/* Each gives the bin a word with a free block, false if it cannot: from the current slab, ... */
bool use_current(struct bin *bin);
/* ... from one of its other slabs, ... */
bool use_available(struct bin *bin);
/* ... from a slab that is on no list. */
bool make_current(struct bin *bin, struct slab *slab);

/* Rebins the slabs in the heap's remote free queue. */
void rebin_queued(struct thread_heap *heap);
/* Rebins every slab of the bin but the current one, if there was a sweep. After a late one the
 * slabs are visited by the next two. */
void rebin_after_sweep(struct thread_heap *heap, unsigned class_index);
/* Sweeps and rebins full slabs of the class until one is available. False: none was found yet. */
bool find_available_after_sweep(struct thread_heap *heap, unsigned class_index);
/* Sweeps and rebins so many slabs of any class: those that are empty go back. */
void visit_some_after_sweep(struct thread_heap *heap, unsigned most);
void rebin_all_after_sweep(struct thread_heap *heap);

#endif
