/* SPDX-License-Identifier: MIT
 *
 * historic.h: the allocators made of the four historic heaps: each as published, and under the
 * layers of today.
 */
#ifndef ALLOTROPE_ALLOC_PRESETS_HISTORIC_H
#define ALLOTROPE_ALLOC_PRESETS_HISTORIC_H

#include "alloc/allocator.h"

extern const struct allocator bsd_default, bsd_classic;
extern const struct allocator knuth_default, knuth_classic;
extern const struct allocator cartesian_default, cartesian_classic;
extern const struct allocator gnu_default, gnu_classic;

/* The common paths of the default presets, for a library that calls one directly. */
void *bsd_default_alloc(size_t size);
void bsd_default_free(void *block);
void *knuth_default_alloc(size_t size);
void knuth_default_free(void *block);
void *cartesian_default_alloc(size_t size);
void cartesian_default_free(void *block);
void *gnu_default_alloc(size_t size);
void gnu_default_free(void *block);

#endif
