/* SPDX-License-Identifier: MIT
 *
 * private_memory.h: memory of the collector's own, which it must never take for the program's.
 *
 * It is entered in the granule map `owners` as memory in which no block lies. So one rule tells
 * what is ours when the process's mappings are read: all that either granule map knows.
 */
#ifndef ALLOTROPE_VM_PRIVATE_MEMORY_H
#define ALLOTROPE_VM_PRIVATE_MEMORY_H

#include <stddef.h>

#include "vm/owner.h"

/* `bytes` of zero, rounded up to granules, which take memory only once they are written. NULL when
 * the kernel refuses. Any thread, no lock; also while the world is stopped. */
void *private_memory_map(size_t bytes);
/* Like private_memory_map(), but shared with the children that are made from then on. */
void *private_memory_map_shared(size_t bytes);
void private_memory_unmap(void *start, size_t bytes);
/* How often that was called: whether a list of the process's mappings may have some of it still. */
unsigned private_memory_unmaps(void);

/* What the granule map says of all such memory. */
extern struct owner private_memory_owner __attribute__((visibility("hidden")));

#endif
