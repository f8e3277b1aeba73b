/* SPDX-License-Identifier: MIT
 *
 * classic.h: a policy heap as it was published, made safe for threads and nothing more: one
 * heap, one lock, one contiguous area in place of sbrk. The preset for reproduction.
 */
#ifndef ALLOTROPE_ALLOC_LAYERS_CLASSIC_H
#define ALLOTROPE_ALLOC_LAYERS_CLASSIC_H

#include "alloc/allocator.h"

/* options: the heap's. alignment: of every block that it hands out. */
bool classic_init(const struct heap_policy *policy, const void *options, size_t alignment);

/* As struct allocator says. Beyond the checks that the algorithm makes itself, only an address
 * outside the heap is recognised. */
void *classic_alloc(size_t size);
void *classic_alloc_zeroed(size_t size);
void *classic_alloc_aligned(size_t alignment, size_t size);
void classic_free(void *block);
void *classic_resize(void *block, size_t size);
size_t classic_usable_size(const void *block);
struct block_waste classic_waste(const void *block);
bool classic_owns(const void *address);
void classic_thread_exit(void);
size_t classic_trim(void);
void classic_statistics(struct allocator_statistics *statistics);
size_t classic_cached_bytes(void);
void classic_walk(heap_visitor *visit, void *argument);
bool classic_is_valid(void);

#define CLASSIC_TITLE "as published: one heap, one lock"

/* All of struct allocator that is the same for every policy. */
#define CLASSIC_FUNCTIONS                                                                       \
    .alloc = classic_alloc, .alloc_zeroed = classic_alloc_zeroed,                               \
    .alloc_aligned = classic_alloc_aligned, .free = classic_free, .resize = classic_resize,     \
    .usable_size = classic_usable_size, .waste = classic_waste, .owns = classic_owns,           \
    .thread_exit = classic_thread_exit, .trim = classic_trim, .statistics = classic_statistics, \
    .cached_bytes = classic_cached_bytes, .walk = classic_walk, .is_valid = classic_is_valid

#endif
