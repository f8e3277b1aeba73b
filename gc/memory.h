/* SPDX-License-Identifier: MIT
 *
 * memory.h: memory of the collector's own, which it must never take for the program's.
 *
 * Entered in the page map as memory that no block lies in, so that one rule tells what is ours
 * when the process's mappings are read: whatever the page map knows.
 */
#ifndef ALLOTROPE_GC_MEMORY_H
#define ALLOTROPE_GC_MEMORY_H

#include <stddef.h>

/* `bytes` of zero, rounded up to granules, which take memory only once they are written. NULL when
 * the kernel refuses. Any thread, no lock; also while the world is stopped. */
void *own_memory_map(size_t bytes);
void own_memory_unmap(void *start, size_t bytes);

#endif
