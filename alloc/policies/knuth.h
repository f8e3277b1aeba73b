/* SPDX-License-Identifier: MIT
 *
 * knuth.h: boundary-tag first fit; see knuth.c.
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_KNUTH_H
#define ALLOTROPE_ALLOC_POLICIES_KNUTH_H

#include "alloc/policies/block_alignment.h"
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
    size_t free_bytes, alignment;
    char *fencepost; /* the tag behind the last block; NULL: no memory yet */
    bool cut_from_end, short_search, looks_at_end;
    size_t bound; /* no free block but the wilderness is larger */
    struct counters counters;
};

enum knuth_cut { KNUTH_CUT_START, KNUTH_CUT_END };
enum knuth_search { KNUTH_SEARCH_PUBLISHED, KNUTH_SEARCH_SHORT, KNUTH_SEARCH_BINNED };
enum knuth_end { KNUTH_END_TRUSTED, KNUTH_END_CHECKED };

struct knuth_options {
    enum knuth_cut cut;
    enum knuth_search search;
    enum knuth_end end;
    enum block_alignment alignment;
    bool counters;
};

extern const struct heap_policy knuth_policy;
extern const struct option_description knuth_options[]; /* as published */

/* Rows of a preset's table: what users choose, and what the preset fixes. */
#define KNUTH_OPTIONS(at, initial_search, initial_counters)                                       \
    {"cut", "which end of a free block is handed out", KEYWORD_IN(at, struct knuth_options, cut), \
     .keywords = {[KNUTH_CUT_START] = "start", [KNUTH_CUT_END] = "end"},                          \
     .initial = KNUTH_CUT_START},                                                                 \
        {"search",                                                                                \
         "as published; given up when what is left to see cannot do; or by bins of sizes",        \
         KEYWORD_IN(at, struct knuth_options, search),                                            \
         .keywords = {[KNUTH_SEARCH_PUBLISHED] = "published",                                     \
                      [KNUTH_SEARCH_SHORT] = "short",                                             \
                      [KNUTH_SEARCH_BINNED] = "binned"},                                          \
         .initial = (initial_search)},                                                            \
        COUNTERS_OPTION(at, struct knuth_options, initial_counters)
#define KNUTH_FIXED_OPTIONS(at, initial_end)                                                \
    {                                                                                       \
        "end", "whether the tag at a block's end is checked",                               \
            KEYWORD_IN(at, struct knuth_options, end),                                      \
            .keywords = {[KNUTH_END_TRUSTED] = "trusted", [KNUTH_END_CHECKED] = "checked"}, \
            .initial = (initial_end), .is_fixed = true                                      \
    }

#endif
