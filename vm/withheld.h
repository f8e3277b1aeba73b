/* SPDX-License-Identifier: MIT
 *
 * withheld.h: memory of ours that the child of a collection's snapshot does without.
 *
 * The statistics' tables take up to a quarter of the heap, in small pages. To fork them would make
 * most of the stop that makes the child (gc/world/snapshot.h), which never reads them.
 *
 * The memory is mapped in chunks, so that there are few pieces to withhold. A new chunk is an
 * eighth of what there is, but at least a granule. Chunks are never given back. They are entered in
 * `beside_heaps` (granule_map.h): they are no roots.
 *
 * Shared words
 *   chunk.start   Writer: who makes the chunk, once, by compare and swap. A thread that makes it at
 *                 the same time comes second, and unmaps its own.
 *   chunk.bytes   Writer: whoever is about to make the chunk; all write the same value.
 *   chunk.used    Writers: all who take memory, by an atomic addition, also past the end.
 *   last          Writers: all who find a chunk used up, by compare and swap. Only grows.
 */
#ifndef ALLOTROPE_VM_WITHHELD_H
#define ALLOTROPE_VM_WITHHELD_H

#include <stdbool.h>
#include <stddef.h>

/* A granule of zeros, which takes memory only once it is written. NULL when the kernel refuses. Any
 * thread, no lock. */
void *withheld_map(void);

/* Whether an address lies in such memory. Any thread. */
bool withheld_has(const void *address);

/* Called around the making of a child, which then lacks the memory, as far as the kernel agrees.
 * The world is stopped, so no other thread makes a child meanwhile. A chunk that the kernel would
 * refuse to give back is not withheld. */
void withheld_begin(void);
void withheld_end(void);

#endif
