/* SPDX-License-Identifier: MIT
 *
 * cartesian.h: Stephenson's better fit; see cartesian.c.
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_CARTESIAN_H
#define ALLOTROPE_ALLOC_POLICIES_CARTESIAN_H

#include "alloc/policies/block_alignment.h"
#include "alloc/policies/boundary_tag.h"
#include "alloc/policies/counters.h"
#include "alloc/heap.h"

enum { CARTESIAN_HEADER_BYTES = TAG_BYTES };

struct cartesian_node;
struct cartesian_array;

struct cartesian_heap {
    struct page_source *pages;
    struct cartesian_node *root;
    struct cartesian_node *spare_nodes;                 /* last used, first reused */
    struct cartesian_node *fresh_node, *fresh_node_end; /* of the newest array */
    struct cartesian_array *first_array, *last_array;   /* in order of age, for walks */
    struct cartesian_array *unused_array;               /* a record for the next one */
    char *nodeless;     /* freed blocks for which there was no memory for a node; see cartesian.c */
    bool asks_again;    /* memory for nodes, although blocks wait for it */
    unsigned patience;  /* how many requests until it does */
    size_t least_bytes; /* of a block */
    size_t alignment;
    struct counters counters;
};

enum cartesian_tree { CARTESIAN_TREE_PUBLISHED, CARTESIAN_TREE_FAST };

struct cartesian_options {
    enum cartesian_tree tree;
    enum block_alignment alignment;
    bool counters;
    uint64_t least_bytes;
};

extern const struct heap_policy cartesian_policy;
extern const struct option_description cartesian_options[]; /* as published */

/* Rows of a preset's table: what users choose, and what the preset fixes. */
#define CARTESIAN_OPTIONS(at, initial_tree, initial_counters)                                \
    {"tree", "as published, or one that stays shallow",                                      \
     KEYWORD_IN(at, struct cartesian_options, tree),                                         \
     .keywords = {[CARTESIAN_TREE_PUBLISHED] = "published", [CARTESIAN_TREE_FAST] = "fast"}, \
     .initial = (initial_tree)},                                                             \
        COUNTERS_OPTION(at, struct cartesian_options, initial_counters)
#define CARTESIAN_FIXED_OPTIONS(at, initial_least_bytes)                                     \
    {                                                                                        \
        "least", "bytes of the smallest block",                                              \
            NUMBER_IN(at, struct cartesian_options, least_bytes),                            \
            .minimum = 16, .maximum = 64, .initial = (initial_least_bytes), .is_fixed = true \
    }

#endif
