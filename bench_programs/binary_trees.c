/* SPDX-License-Identifier: MIT
 *
 * binary_trees.c: complete trees of two words a node, built, walked and dropped.
 *
 * The smallest blocks and nothing but pointers: allocation, marking and the cost of what an
 * allocator or collector adds to a block are all at their worst.
 *
 * Idea: the binary-trees benchmark of the Computer Language Benchmarks Game, after GCBench.
 */
#include "bench_programs/collected.h"

struct tree {
    struct tree *left, *right;
};

static struct tree *build(unsigned levels)
{
    struct tree *node = obtain(sizeof *node);
    node->left = levels > 0 ? build(levels - 1) : NULL;
    node->right = levels > 0 ? build(levels - 1) : NULL;
    return node;
}

static uint64_t count(const struct tree *node)
{
    return node->left ? 1 + count(node->left) + count(node->right) : 1;
}

static void drop(struct tree *node)
{
    if (!frees)
        return;
    if (node->left) {
        drop(node->left);
        drop(node->right);
    }
    give_up(node);
}

int main(int argc, char **argv)
{
    uint64_t depth = 18;
    const struct bench_option options[] = {{"depth", "of the deepest tree", 6, 26, &depth}, {0}};
    bench_arguments(argc, argv, "complete binary trees", options);
    start_collected();
    struct tree *lives = build((unsigned)depth);
    uint64_t nodes = 0;
    for (unsigned levels = 4; levels <= depth; levels += 4)
        for (uint64_t i = (uint64_t)1 << (depth - levels + 4); i > 0; i--) {
            struct tree *tree = build(levels);
            nodes += count(tree);
            drop(tree);
        }
    printf("binary_trees: nodes=%" PRIu64 " live=%" PRIu64 "\n", nodes, count(lives));
    drop(lives);
    finish_collected();
    return 0;
}
