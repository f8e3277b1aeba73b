/* SPDX-License-Identifier: MIT
 *
 * large.h: the layer of large blocks, each a mapping of its own; see large.c.
 */
#ifndef ALLOTROPE_ALLOC_LAYERS_LARGE_H
#define ALLOTROPE_ALLOC_LAYERS_LARGE_H

#include "alloc/heap.h"
#include "vm/owner.h"

struct large_block {
    struct owner owner;
    char *payload;
    size_t usable_bytes; /* whole pages */
    struct large_block *next, *previous;
};

/* At least `size` bytes, of zero if `zeroed`, aligned to `alignment` (a power of two). NULL: out of
 * memory. */
void *large_alloc(size_t alignment, size_t size, bool zeroed);

/* The functions below get the record that the granule map has for the address. */

/* Aborts when the address is not the block's start. function: "free" or "realloc". */
void large_check_start(const struct large_block *block, const char *function, void *payload);
void large_free(struct large_block *block, void *payload);
/* Grows, shrinks or moves by remapping, without a copy. NULL: it cannot grow so, and nothing has
 * changed; the program may have split the mapping by mprotect or madvise. */
void *large_resize(struct large_block *block, void *payload, size_t size);

/* Gives back what is kept of freed blocks beyond so many bytes; returns bytes. */
size_t large_trim(size_t most_bytes);
/* So many bytes of freed blocks may be kept however few are in use. */
void large_keep(size_t bytes);

void large_walk(heap_visitor *visit, void *argument);
void large_statistics(uint64_t *blocks, uint64_t *bytes);

/* layered_init adds it to what fork takes. */
extern struct lock large_lock;

#endif
