/* SPDX-License-Identifier: MIT
 *
 * gnu.h: Haertel's hybrid; see gnu.c.
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_GNU_H
#define ALLOTROPE_ALLOC_POLICIES_GNU_H

#include "alloc/policies/counters.h"
#include "alloc/policies/free_bins.h"
#include "alloc/heap.h"

enum {
    GNU_PAGE_LOG = 12,
    GNU_PAGE_BYTES = 1 << GNU_PAGE_LOG,
    GNU_MIN_FRAGMENT_LOG = 4, /* two pointers */
    GNU_MAX_FRAGMENT_LOG = GNU_PAGE_LOG - 1,
    GNU_PARTS = 11, /* kinds of fragments above half a page: 2560, 3072, 3584, ... 14336 */
    GNU_KINDS = GNU_MAX_FRAGMENT_LOG + 1 + GNU_PARTS,
};

struct gnu_fragment {
    struct gnu_fragment *next, *previous;
};

/* An entry of the page table. Only the first page of a cluster has a valid one. */
union gnu_page {
    struct {
        size_t pages;
        size_t next, previous; /* indices, in order of address; the list's head is entry 0 */
    } free;
    struct {
        size_t kind; /* of its fragments, up to half a page their logarithm; 0: a run of pages;
                        GNU_KINDS: a page behind the first of a chunk */
        union {
            size_t pages; /* of a run; behind the first, the distance to it */
            struct {
                uint32_t free_count;
                uint32_t first; /* number of the fragment that leads the chunk's free ones */
            };
        };
    } busy;
};

struct gnu_heap {
    struct page_source *pages;
    char *base;            /* page 1 begins here */
    union gnu_page *table; /* lies in the heap itself */
    size_t table_entries;
    size_t limit;                             /* the page behind the last */
    size_t search_index;                      /* where the next search starts */
    struct gnu_fragment fragments[GNU_KINDS]; /* heads */
    unsigned least_log;                       /* of a fragment */
    bool parts;                               /* whether there are fragments above half a page */
    size_t final_free_pages;                  /* at the end, from which on they are returned */
    struct counters counters;
    bool binned; /* the free clusters are in bins (gnu_clusters.h), not in the list by address */
    struct free_bin_map bin_map;
    size_t bins[FREE_BINS]; /* first pages of clusters; 0: none */
};

enum gnu_clusters { GNU_CLUSTERS_PUBLISHED, GNU_CLUSTERS_BINNED };

struct gnu_options {
    enum gnu_clusters clusters;
    bool counters;
    bool parts;                /* whether there are fragments above half a page */
    uint64_t least_log;        /* of a fragment */
    uint64_t final_free_pages; /* at the end, from which on they are returned */
};

extern const struct heap_policy gnu_policy;
extern const struct option_description gnu_options[]; /* as published */

/* Rows of a preset's table: what users choose, and what the preset fixes. */
#define GNU_OPTIONS(at, initial_clusters, initial_counters)                                  \
    {"clusters", "free pages in one list by address, as published, or in bins of sizes",     \
     KEYWORD_IN(at, struct gnu_options, clusters),                                           \
     .keywords = {[GNU_CLUSTERS_PUBLISHED] = "published", [GNU_CLUSTERS_BINNED] = "binned"}, \
     .initial = (initial_clusters)},                                                         \
        COUNTERS_OPTION(at, struct gnu_options, initial_counters)
#define GNU_FIXED_OPTIONS(at, initial_least_log, initial_final_free_pages, initial_parts) \
    {"least_log",                                                                         \
     "logarithm of the smallest fragment's size",                                         \
     NUMBER_IN(at, struct gnu_options, least_log),                                        \
     .minimum = GNU_MIN_FRAGMENT_LOG,                                                     \
     .maximum = GNU_MAX_FRAGMENT_LOG,                                                     \
     .initial = (initial_least_log),                                                      \
     .is_fixed = true},                                                                   \
        {"final_free_pages",                                                              \
         "free pages at the end that are returned",                                       \
         NUMBER_IN(at, struct gnu_options, final_free_pages),                             \
         .minimum = 1,                                                                    \
         .maximum = 1 << 20,                                                              \
         .initial = (initial_final_free_pages),                                           \
         .is_fixed = true},                                                               \
    {                                                                                     \
        "parts", "fragments above half a page", SWITCH_IN(at, struct gnu_options, parts), \
            .initial = (initial_parts), .is_fixed = true                                  \
    }

#endif
