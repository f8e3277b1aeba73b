/* SPDX-License-Identifier: MIT
 *
 * depot.h: free blocks between the thread caches and the arenas.
 *
 * A bin that overflows hands over its blocks as they are, a chain; a bin that runs dry takes a
 * chain. Either is a few instructions under a lock, whatever the number of blocks: no block is
 * touched, and the heap, which would merge the blocks only to cut them again, is not asked. So a
 * program that frees what it will soon allocate anew, or allocates in one thread what it frees in
 * another, does not reach its heap at all. What the depot keeps is bounded by its owner.
 *
 * Source: Bonwick & Adams, "Magazines and Vmem", USENIX 2001, section 3.
 */
#ifndef ALLOTROPE_ALLOC_LAYERS_DEPOT_H
#define ALLOTROPE_ALLOC_LAYERS_DEPOT_H

#include <stddef.h>
#include <stdint.h>

#include "alloc/layers/shadow_byte.h"
#include "vm/lock.h"

/* Blocks of one bin, linked through their first word; the last links to NULL. */
struct chain {
    void *blocks; /* NULL: no chain */
    uint32_t count;
    uint32_t longest; /* what a bin of this kind can take */
    size_t block_bytes;
};

struct stored_chain {
    struct chain chain;
    struct stored_chain *next;
};

struct depot {
    struct lock lock;
    unsigned next_to_leave; /* the bin whose turn it is when there is too much */
    struct stored_chain *bins[BINS], *unused;
    size_t bytes;
    uint64_t blocks;
};

/* Stores a chain. Returns one that the caller must give back to the arenas, because the depot now
 * holds more than `most` bytes or has no memory for a record: that chain or another. Repeat with
 * an empty chain until none comes back. */
struct chain depot_put(struct depot *depot, unsigned bin, struct chain chain, size_t most);

/* Takes a chain of a bin, an empty one when there is none. */
struct chain depot_get(struct depot *depot, unsigned bin);

#endif
