/* SPDX-License-Identifier: MIT
 *
 * gnu.h: Haertel's hybrid; see gnu.c.
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_GNU_H
#define ALLOTROPE_ALLOC_POLICIES_GNU_H

#include "alloc/policies/counters.h"
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
};

/* Options, in their order. From GNU_LEAST_LOG on they are set by the presets, not by users. */
enum gnu_option { GNU_COUNTERS, GNU_LEAST_LOG, GNU_FINAL_FREE_PAGES, GNU_PART_PAGES, GNU_OPTIONS };

extern const struct heap_policy gnu_policy;

#endif
