/* SPDX-License-Identifier: MIT
 *
 * fork_block.h: blocks that are made while the heap is frozen for a fork (vm/freeze.h).
 *
 * Each is a mapping of its own, so nobody is asked for it but the kernel. Its record stands near
 * the mapping's start, in granules of its own:
 *
 *     |  record | payload ............ |
 *     ^ start   ^ at a multiple of a granule, or of a larger alignment
 *
 * Another such block may lie right before the mapping. Its end is not the record's address, so what
 * leads to the record does not keep that block from a collection.
 *
 * The granule map knows the payload from the beginning, so that any thread may free the block, ask
 * for its size or resize it. The block is entered into the list of such blocks and into the account
 * when the heap thaws. Without memory to note that call (vm/deferred.h) the allocation fails. There
 * are few such blocks: only what other threads asked their heaps for during forks, and have not
 * freed yet.
 *
 * What stands here serves every heap that has one lock or arenas. `blocks` has such blocks of its
 * own kind (alloc/blocks/large.c), because its collector must meet slabs; they share the mapping.
 */
#ifndef ALLOTROPE_ALLOC_FORK_BLOCK_H
#define ALLOTROPE_ALLOC_FORK_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc/heap.h"
#include "vm/freeze.h"
#include "vm/granule_map.h"
#include "vm/owner.h"

/* The mapping. */
struct fork_mapping {
    void *record;
    char *payload;
    size_t usable; /* bytes of the payload */
};

/* NULL record: no memory. The payload reads as zero and is not in the granule map yet. */
struct fork_mapping fork_mapping_make(size_t alignment, size_t size);
/* Unmaps payload and record. The payload must have left the granule map. */
void fork_mapping_drop(const struct fork_mapping *mapping);

/* The blocks of heaps with one lock or arenas. */
struct fork_block;

/* Adds the lock of their list to what fork takes. */
void fork_blocks_init(void);

/* The block at an address of the program, NULL if it lies in none. */
static inline struct fork_block *fork_block_at(const void *address)
{
    struct owner *owner = granule_map_get(address);
    return owner && owner->kind == OWNER_FORK_BLOCK ? (struct fork_block *)owner : NULL;
}

/* A block of zero. The heap is frozen. NULL: no memory. */
void *fork_block_alloc(size_t alignment, size_t size);
/* The same, and the end of the frozen way. */
static inline void *fork_block_alloc_then_end(size_t alignment, size_t size)
{
    void *block = fork_block_alloc(alignment, size);
    frozen_end();
    return block;
}
/* Usable bytes; 0 when the address is not the block's start. */
size_t fork_block_usable(const struct fork_block *block, const void *address);
/* Frees a block, whether the heap is frozen or not. Aborts if the address is not the block's start,
 * or if the block was freed already. */
void fork_block_free(struct fork_block *block, const void *address);

/* Under their lock: for walks, and for a collector that holds the lock while the world is stopped.
 */
void fork_blocks_lock(void);
void fork_blocks_unlock(void);
void fork_blocks_each(heap_visitor *visit, void *argument);
/* Adds their number and bytes. */
void fork_blocks_count(uint64_t *blocks, uint64_t *bytes);

#endif
