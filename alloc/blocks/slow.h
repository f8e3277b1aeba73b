/* SPDX-License-Identifier: MIT
 *
 * slow.h: where malloc and free go on when the fast paths cannot; see slow.c.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_SLOW_H
#define ALLOTROPE_ALLOC_BLOCKS_SLOW_H

#include <stddef.h>

void *alloc_slowly(size_t size);
/* For calloc, above CLASS_LARGEST: a block of zero bytes where one is to be had (the slab's `zero`
 * tells). */
void *alloc_large_zeroed(size_t size);
void free_slowly(void *block);

#endif
