/* SPDX-License-Identifier: MIT
 *
 * tagged_heap.h: what the default presets of knuth and cartesian have in common; see tagged_heap.c.
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_TAGGED_HEAP_H
#define ALLOTROPE_ALLOC_POLICIES_TAGGED_HEAP_H

#include "alloc/heap.h"
#include "alloc/policies/boundary_tag.h"
#include "alloc/policies/counters.h"
#include "alloc/policies/free_bins.h"
#include "alloc/policies/free_tree.h"

enum {
    TAGGED_MIN_BLOCK = 32, /* two tags and two links */
    TAGGED_LEAST_IN_TREE = 16384,
};

struct tagged_free_block;

struct tagged_heap {
    struct page_source *pages;
    char *fencepost; /* the tag behind the last block; NULL: no memory yet */
    size_t free_bytes, wilderness_bytes;
    bool has_tree;     /* for free blocks from TAGGED_LEAST_IN_TREE on */
    bool cut_from_end; /* hands out the high end of a free block, else the low one */
    struct counters counters;
    struct free_tree tree;
    struct free_bin_map bin_map;
    struct tagged_free_block *bins[FREE_BINS];
};

/* As struct heap_policy says. heap: a struct tagged_heap whose `pages` and options its policy's
 * init has set. */
void *tagged_alloc(void *heap, size_t size);
void *tagged_alloc_aligned(void *heap, size_t alignment, size_t size);
void tagged_free(void *heap, void *payload);
bool tagged_resize(void *heap, void *payload, size_t size);
size_t tagged_usable_size(void *heap, const void *payload);
struct block_waste tagged_waste(void *heap, const void *payload);
void tagged_walk(void *heap, heap_visitor *visit, void *argument);
void tagged_statistics(void *heap, struct heap_statistics *statistics);
bool tagged_is_valid(void *heap);

/* All of struct heap_policy that is the same for every policy of such a heap. */
#define TAGGED_FUNCTIONS                                                                 \
    .heap_bytes = sizeof(struct tagged_heap), .alloc = tagged_alloc,                     \
    .alloc_aligned = tagged_alloc_aligned, .free = tagged_free, .resize = tagged_resize, \
    .usable_size = tagged_usable_size, .waste = tagged_waste, .walk = tagged_walk,       \
    .statistics = tagged_statistics, .is_valid = tagged_is_valid

#endif
