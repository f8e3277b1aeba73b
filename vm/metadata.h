/* SPDX-License-Identifier: MIT
 *
 * metadata.h: small, permanent memory for the heaps' own records, apart from the blocks.
 *
 * It comes from extents of whole granules, mostly one, and is never given back. A module that frees
 * records keeps them on a list of its own.
 */
#ifndef ALLOTROPE_VM_METADATA_H
#define ALLOTROPE_VM_METADATA_H

#include <stddef.h>

/* `bytes` of zero, aligned to 64. NULL when the kernel refuses. Any thread; takes metadata_lock. */
void *metadata_alloc(size_t bytes);

/* The first extent, which every process has among the library's data; all others are in
 * `beside_heaps`. Records tell where blocks lie, or lay. To a collector these words are no
 * pointers. */
void metadata_first_extent(const void **start, size_t *bytes);

/* Its rank is RANK_PAGES. window_init adds it to what fork takes. */
extern struct lock metadata_lock;

#endif
