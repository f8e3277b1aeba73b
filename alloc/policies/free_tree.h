/* SPDX-License-Identifier: MIT
 *
 * free_tree.h: a Cartesian tree of free blocks that stays shallow; see free_tree.c.
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_FREE_TREE_H
#define ALLOTROPE_ALLOC_POLICIES_FREE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Stands at the start of a free block. */
struct free_node {
    uint64_t tag; /* the heap's */
    struct free_node *left, *right;
    size_t bytes;
    uint64_t rank;
};

struct free_tree {
    struct free_node *root;
    uintptr_t origin; /* where the heap's memory began */
};

/* A place that points to a node: the root, or a child's. */
typedef struct free_node **free_link;

void free_tree_insert(struct free_tree *tree, void *block, size_t bytes);

/* Where a block of the tree hangs. NULL: it is not in it. */
free_link free_tree_find(struct free_tree *tree, const void *block);

/* Better fit: from the root down to the shorter child for as long as one serves. NULL: the root
 * does not. length: how many nodes were looked at. */
free_link free_tree_find_room(struct free_tree *tree, size_t bytes, uint64_t *length);

void free_tree_remove(free_link link);

/* The block at *link loses `bytes` at its start. */
void free_tree_cut(free_link link, size_t bytes);

/* A block of the tree and its neighbours become one. `block` is where that begins. */
void free_tree_widen(struct free_tree *tree, const void *old, void *block, size_t bytes);

/* How many nodes there are; *depth becomes that of the deepest. SIZE_MAX: deeper than can be. */
size_t free_tree_count(const struct free_tree *tree, size_t *depth);

/* Whether a block is in the tree, with that size, and stands right to its children. For tests. */
bool free_tree_holds(struct free_tree *tree, const void *block, size_t bytes);

#endif
