/* SPDX-License-Identifier: MIT
 *
 * gcbench.c: trees that live long beside trees that live for a moment.
 *
 * A complete tree and an array stay; then trees of growing depth, fewer of the deeper ones, are
 * built from the leaves up and from the root down and dropped. It stresses the rate of
 * allocation of small equal blocks, and marking again and again what does not change; the array
 * holds no pointer, but looks to a conservative collector as if it might.
 *
 * Idea: J. Ellis and P. Kovac, changed by H. Boehm, "GCBench".
 */
#include "bench_programs/collected.h"

struct tree {
    struct tree *left, *right;
    uint32_t first, second;
};

static uint64_t depth = 16;

static struct tree *new_node(struct tree *left, struct tree *right)
{
    struct tree *node = obtain(sizeof *node);
    *node = (struct tree){left, right, 0, 0};
    return node;
}

static struct tree *from_leaves(unsigned levels)
{
    return levels == 0 ? new_node(NULL, NULL)
                       : new_node(from_leaves(levels - 1), from_leaves(levels - 1));
}

static void from_root(struct tree *node, unsigned levels)
{
    if (levels == 0)
        return;
    node->left = new_node(NULL, NULL);
    node->right = new_node(NULL, NULL);
    from_root(node->left, levels - 1);
    from_root(node->right, levels - 1);
}

static uint64_t count(const struct tree *node)
{
    return node ? 1 + count(node->left) + count(node->right) : 0;
}

static void drop(struct tree *node)
{
    if (!frees || !node)
        return;
    drop(node->left);
    drop(node->right);
    give_up(node);
}

static uint64_t short_lived(unsigned levels)
{
    uint64_t trees = ((uint64_t)2 << (depth + 1)) / ((uint64_t)2 << levels), nodes = 0;
    for (uint64_t i = 0; i < trees; i++) {
        struct tree *top = new_node(NULL, NULL);
        from_root(top, levels);
        struct tree *bottom = from_leaves(levels);
        nodes += count(top) + count(bottom);
        drop(top);
        drop(bottom);
    }
    return nodes;
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {{"depth", "of the tree that stays", 6, 24, &depth}, {0}};
    bench_arguments(argc, argv, "long-lived and short-lived trees", options);
    start_collected();
    enum { NUMBERS = 500000 };
    struct tree *lives = new_node(NULL, NULL);
    from_root(lives, (unsigned)depth);
    double *numbers = obtain(NUMBERS * sizeof *numbers);
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = 1.0 / (i + 1);
    uint64_t nodes = 0;
    for (unsigned levels = 4; levels <= depth; levels += 2)
        nodes += short_lived(levels);
    printf("gcbench: nodes=%" PRIu64 " live=%" PRIu64 " number=%.6f\n", nodes, count(lives),
           numbers[1000]);
    drop(lives);
    give_up(numbers);
    finish_collected();
    return 0;
}
