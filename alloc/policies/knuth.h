/* SPDX-License-Identifier: MIT
 *
 * knuth.h: boundary-tag first fit; see knuth.c.
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_KNUTH_H
#define ALLOTROPE_ALLOC_POLICIES_KNUTH_H

#include "alloc/policies/boundary_tag.h"
#include "alloc/policies/counters.h"
#include "alloc/heap.h"

enum {
    KNUTH_TAGS_BYTES = 2 * TAG_BYTES, /* one at either end */
    KNUTH_MIN_BLOCK = 32,             /* four words: two tags and two links */
};

struct knuth_free_block;

struct knuth_heap {
    struct page_source *pages;
    struct knuth_free_block *rover; /* where the next search starts; NULL: no block is free */
    size_t free_bytes;
    char *fencepost; /* the tag behind the last block; NULL: no memory yet */
    bool cut_from_end, short_search, looks_at_end;
    size_t bound; /* no free block but the wilderness is larger */
    struct counters counters;
};

/* Options, in their order. KNUTH_END is set by the presets, not by users. */
enum knuth_option { KNUTH_CUT, KNUTH_SEARCH, KNUTH_COUNTERS, KNUTH_END, KNUTH_OPTIONS };
#define KNUTH_SEARCH_TITLE "as published, or given up when what is left to see cannot do"

extern const struct heap_policy knuth_policy;
extern const char *const knuth_cuts[], *const knuth_searches[];

#endif
