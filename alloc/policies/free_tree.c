/* SPDX-License-Identifier: MIT
 *
 * free_tree.c: Stephenson's tree for blocks of which there may be any number.
 *
 * Addresses increase from left to right as in a search tree, and no node is ranked below its child
 * as in a heap. Allocating descends from the root to the shorter child for as long as one is large
 * enough. As published, a node's rank is its block's size, and the tree is a chain where many
 * blocks have one size, or where sizes increase with the address. Here the rank is
 *
 *   | bin of the size (free_bins.h) | hash of the address |
 *
 * There are few bins, and among blocks of one bin the tree is one of random priorities, which is
 * shallow. The hash stays with the node, so that a block which grows or shrinks within its bin
 * keeps its place. The address counts from the heap's start, so that a heap is the same wherever
 * the kernel puts it. Nodes stand in the blocks, as in Stephenson's paper.
 *
 * Within a bin a child may be larger than its parent. So the descent may stop above a block that
 * would serve, and a root that does not serve may hide one of its own bin. The last bin has no end
 * (it starts at 15 GiB). In the hash's place its ranks have the size itself, in steps of 16 MiB.
 *
 * Source: C. J. Stephenson, Fast Fits, SOSP 1983; R. Seidel and C. R. Aragon, Randomized Search
 * Trees, Algorithmica 1996.
 */
#include "alloc/policies/free_tree.h"

#include "alloc/heap.h"
#include "alloc/policies/free_bins.h"

enum { HASH_BITS = 16, LAST_BIN_STEP_BITS = 24 };

static uint64_t rank_of(size_t bytes, uint64_t hash)
{
    uint64_t bin = free_bin_of(bytes / BLOCK_ALIGNMENT);
    return bin << HASH_BITS | (bin == FREE_BINS - 1 ? bytes >> LAST_BIN_STEP_BITS : hash);
}

static uint64_t hash_of(const struct free_tree *tree, const void *block)
{
    return ((uintptr_t)block - tree->origin) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - HASH_BITS);
}

/* 0 where there is no node. */
static uint64_t rank(const struct free_node *node)
{
    return node ? node->rank : 0;
}

static size_t weight(const struct free_node *node)
{
    return node ? node->bytes : 0;
}

/* Joins two subtrees at *link for as long as one of them is ranked above `least`; returns the
 * place below, and what is left of the two. */
static free_link join_above(free_link link, free_link left, free_link right, uint64_t least)
{
    for (;;) {
        uint64_t left_rank = rank(*left), right_rank = rank(*right);
        if (left_rank <= least && right_rank <= least)
            return link;
        if (left_rank >= right_rank) {
            *link = *left;
            link = &(*left)->right;
            *left = *link;
        } else {
            *link = *right;
            link = &(*right)->left;
            *right = *link;
        }
    }
}

void free_tree_remove(free_link link)
{
    struct free_node *left = (*link)->left, *right = (*link)->right;
    *join_above(link, &left, &right, 0) = NULL;
}

/* Splits a subtree into what lies below and above a block. */
static void split(struct free_node *below, struct free_node *node)
{
    free_link left = &node->left, right = &node->right;
    while (below) {
        if (below < node) {
            *left = below;
            left = &below->right;
            below = below->right;
        } else {
            *right = below;
            right = &below->left;
            below = below->left;
        }
    }
    *left = *right = NULL;
}

static void insert(struct free_tree *tree, struct free_node *node)
{
    free_link link = &tree->root;
    for (struct free_node *here; (here = *link) != NULL && here->rank >= node->rank;)
        link = node < here ? &here->left : &here->right;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): every descent passes a place */
    split(*link, node);
    *link = node;
}

void free_tree_insert(struct free_tree *tree, void *block, size_t bytes)
{
    struct free_node *node = block;
    node->bytes = bytes;
    node->rank = rank_of(bytes, hash_of(tree, block));
    insert(tree, node);
}

free_link free_tree_find(struct free_tree *tree, const void *block)
{
    const struct free_node *node = block;
    free_link link = &tree->root;
    while (*link && *link != node)
        link = node < *link ? &(*link)->left : &(*link)->right;
    return *link ? link : NULL;
}

free_link free_tree_find_room(struct free_tree *tree, size_t bytes, uint64_t *length)
{
    free_link link = &tree->root;
    *length = 0;
    if (weight(*link) < bytes)
        return NULL;
    for (;;) {
        struct free_node *node = *link;
        ++*length;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): an empty place weighs 0 */
        size_t left = weight(node->left), right = weight(node->right);
        bool go_left = left >= bytes && (left <= right || right < bytes);
        if (!go_left && right < bytes)
            return link;
        link = go_left ? &node->left : &node->right;
    }
}

/* `node`, of which only its place in memory is set, takes over from the node at *link. It sinks to
 * where it belongs. */
static void replace(free_link link, struct free_node *node, size_t bytes)
{
    struct free_node *left = (*link)->left, *right = (*link)->right;
    uint64_t hash = (*link)->rank & ((1 << HASH_BITS) - 1);
    node->bytes = bytes;
    node->rank = rank_of(bytes, hash);
    link = join_above(link, &left, &right, node->rank);
    node->left = left;
    node->right = right;
    *link = node;
}

void free_tree_cut(free_link link, size_t bytes)
{
    replace(link, (struct free_node *)((char *)*link + bytes), (*link)->bytes - bytes);
}

void free_tree_widen(struct free_tree *tree, const void *old, void *block, size_t bytes)
{
    const struct free_node *node = old;
    uint64_t above = UINT64_MAX;
    free_link link = &tree->root;
    while (*link != node) {
        above = (*link)->rank;
        link = node < *link ? &(*link)->left : &(*link)->right;
    }
    if (rank_of(bytes, node->rank & ((1 << HASH_BITS) - 1)) <= above) {
        replace(link, block, bytes);
    } else {
        free_tree_remove(link);
        free_tree_insert(tree, block, bytes);
    }
}

size_t free_tree_count(const struct free_tree *tree, size_t *depth)
{
    enum { DEEPEST = 256 };
    const struct free_node *path[DEEPEST], *node = tree->root;
    size_t levels[DEEPEST], level = 1, used = 0, count = 0;
    *depth = 0;
    while (node || used > 0) {
        if (node) {
            if (used == DEEPEST)
                return SIZE_MAX;
            path[used] = node;
            levels[used++] = level++;
            node = node->left;
        } else {
            node = path[--used]->right;
            level = levels[used];
            *depth = level > *depth ? level : *depth;
            level++;
            count++;
        }
    }
    return count;
}

bool free_tree_holds(struct free_tree *tree, const void *block, size_t bytes)
{
    free_link link = free_tree_find(tree, block);
    const struct free_node *node = block;
    return link && node->bytes == bytes && rank(node->left) <= node->rank &&
           rank(node->right) <= node->rank && (!node->left || node->left < node) &&
           (!node->right || node->right > node);
}
