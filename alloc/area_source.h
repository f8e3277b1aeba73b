/* SPDX-License-Identifier: MIT
 *
 * area_source.h: a page source over an area. It gives a policy heap the memory that sbrk gave the
 * original. Whoever holds the lock of the heap may use it.
 */
#ifndef ALLOTROPE_ALLOC_AREA_SOURCE_H
#define ALLOTROPE_ALLOC_AREA_SOURCE_H

#include "alloc/heap.h"
#include "vm/area.h"

struct area_source {
    struct page_source pages;
    struct area area;
};

/* owner: is entered in the granule map. Asks the kernel for nothing yet. */
void area_source_init(struct area_source *source, void *owner);

#endif
