/* SPDX-License-Identifier: MIT
 *
 * destroy.c: a large tree of which random subtrees are replaced for as long as it runs.
 *
 * All of the heap lives except what was cut off last, and old nodes are made to point to new
 * ones all the time: the opposite of what a generational collector hopes for, and a full
 * collection's marking at its most expensive for what it gives back.
 *
 * Idea: A. Hosking, J. E. B. Moss, "Protection traps and alternatives for memory management of an
 * object-oriented language", SOSP 1993, section 3.2.2.
 */
#include "bench_programs/collected.h"

struct tree {
    struct tree *left, *right;
    uint64_t height;
    uint64_t serial;
};

static uint64_t serial;

static struct tree *build(uint64_t height)
{
    struct tree *node = obtain(sizeof *node);
    *node = (struct tree){.height = height, .serial = serial++};
    if (height > 0) {
        node->left = build(height - 1);
        node->right = build(height - 1);
    }
    return node;
}

static void drop(struct tree *node)
{
    if (!frees || !node)
        return;
    drop(node->left);
    drop(node->right);
    give_up(node);
}

/* Walks down at random to a node at this height and replaces it. */
static void replace(struct tree *tree, uint64_t height, uint64_t *random)
{
    struct tree **at = &tree;
    while ((*at)->height > height)
        at = random_below(random, 2) ? &(*at)->left : &(*at)->right;
    drop(*at);
    *at = NULL;
    *at = build(height);
}

static uint64_t checksum(const struct tree *node)
{
    return node ? mix(node->serial) + checksum(node->left) + checksum(node->right) : 0;
}

int main(int argc, char **argv)
{
    uint64_t depth = 18, replacements = 100000, height = 6;
    const struct bench_option options[] = {
        {"depth", "of the tree", 8, 26, &depth},
        {"replace", "how many subtrees are replaced", 0, 100000000, &replacements},
        {"height", "of the subtrees that are", 0, 20, &height},
        {0},
    };
    bench_arguments(argc, argv, "subtrees of a large tree are replaced", options);
    if (height >= depth)
        bench_bad_argument(program_invocation_short_name, "height", options);
    start_collected();
    struct tree *tree = build(depth);
    uint64_t random = 1;
    for (uint64_t i = 0; i < replacements; i++)
        replace(tree, height, &random);
    printf("destroy: checksum=%016" PRIx64 "\n", checksum(tree));
    drop(tree);
    finish_collected();
    return 0;
}
