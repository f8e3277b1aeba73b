/* SPDX-License-Identifier: MIT
 *
 * bsd_presets.h: the allocators made of Kingsley's heap.
 */
#ifndef ALLOTROPE_ALLOC_BSD_PRESETS_H
#define ALLOTROPE_ALLOC_BSD_PRESETS_H

#include "alloc/allocator.h"

extern const struct allocator bsd_default, bsd_classic;

/* The common path of bsd_default, for a library that calls it directly. */
void *bsd_default_alloc(size_t size);
void bsd_default_free(void *block);

#endif
