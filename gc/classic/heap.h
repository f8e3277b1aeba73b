/* SPDX-License-Identifier: MIT
 *
 * heap.h: the heap of Boehm and Weiser's collector 1.6, as a data structure; see
 * classic/heap.c. It is handed its pages and its roots, and knows no threads. Called by one thread
 * at a time.
 */
#ifndef ALLOTROPE_GC_CLASSIC_HEAP_H
#define ALLOTROPE_GC_CLASSIC_HEAP_H

#include "alloc/heap.h"

enum {
    CLASSIC_CHUNK_BYTES = 4096,
    CLASSIC_HEADER_BYTES = 48,
    CLASSIC_UNIT_BYTES = 16,
    /* The largest class: two objects in a chunk. */
    CLASSIC_CLASS_LIMIT = 2016,
    CLASSIC_CLASSES = CLASSIC_CLASS_LIMIT / CLASSIC_UNIT_BYTES + 1,
};

struct classic_chunk;

struct classic_heap {
    struct page_source *pages;
    bool interior;   /* pointers into an object, or behind its last byte, count too */
    char *base;      /* of the lowest chunk */
    size_t span;     /* chunks from the lowest to the highest, holes included */
    size_t chunks;   /* the heap's own */
    uint8_t *states; /* by chunk: enum chunk_state */
    size_t states_room;
    struct classic_chunk *free_runs; /* in order of address */
    void *free_lists[CLASSIC_CLASSES];
    void **stack; /* objects marked and not yet scanned */
    size_t stack_length, stack_room;
    bool stack_overflowed;
};

struct classic_sweep {
    size_t live_objects, live_bytes;
};

/* heap: zero. interior: see above. False: without memory. The state, like all memory of the heap's
 * own, must lie where no root is looked for. */
bool classic_heap_init(struct classic_heap *heap, struct page_source *pages, bool interior);

/* At least `size` bytes of zero, aligned to 16. NULL: no free block is large enough. */
void *classic_heap_alloc(struct classic_heap *heap, size_t size);
/* alignment: a power of two above 16. */
void *classic_heap_alloc_aligned(struct classic_heap *heap, size_t alignment, size_t size);

/* Adds `bytes`, rounded up to chunks. False when the source refuses. */
bool classic_heap_grow(struct classic_heap *heap, size_t bytes);
/* What a heap must grow by so that a block of this size surely fits. */
size_t classic_heap_room_for(size_t alignment, size_t size);
static inline size_t classic_heap_bytes(const struct classic_heap *heap)
{
    return heap->chunks * CLASSIC_CHUNK_BYTES;
}

/* The object that a word points to, NULL for none: a pointer to its start (or, with `interior`, to
 * any of its bytes). An object on a free list is an object too. */
void *classic_heap_find(const struct classic_heap *heap, uintptr_t word);
/* Bytes of an object from classic_heap_find. */
size_t classic_heap_object_bytes(const struct classic_heap *heap, const void *object);
struct block_waste classic_heap_waste(const struct classic_heap *heap, const void *object);

/* A collection: marks cleared; every word of the roots marked, in any number of calls; the rest
 * followed; everything without a mark put on the free lists. */
void classic_heap_clear_marks(struct classic_heap *heap);
void classic_heap_mark(struct classic_heap *heap, const void *start, const void *end);
void classic_heap_mark_finish(struct classic_heap *heap);
void classic_heap_sweep(struct classic_heap *heap, struct classic_sweep *result);

/* Takes the mark bits to tell free objects from others; the next collection clears them. */
void classic_heap_walk(struct classic_heap *heap, heap_visitor *visit, void *argument);
bool classic_heap_is_valid(struct classic_heap *heap);

#endif
