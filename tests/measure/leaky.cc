// SPDX-License-Identifier: MIT
//
// leaky.cc: loses a part of what it builds; for tests/measure/leaks.py.
//
//     leaky SHAPE BLOCKS PERCENT      PERCENT of the roots are lost, by chance
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <pthread.h>
#include <string>
#include <vector>

struct node {
    node *links[3];
    long payload;
};

static node **roots;
static long root_count;
static unsigned seed = 1;

static long draw(long limit)
{
    return rand_r(&seed) % limit;
}

static __attribute__((noinline)) node *make_node()
{
    return static_cast<node *>(calloc(1, sizeof(node)));
}

static __attribute__((noinline)) void keep(node *root, long percent)
{
    if (draw(100) >= percent)
        roots[root_count++] = root;
}

static __attribute__((noinline)) void build_lists(long blocks, long percent, bool closed)
{
    for (long left = blocks; left > 0; left -= 10) {
        node *first = make_node(), *last = first;
        for (int i = 1; i < 10; i++) {
            last->links[0] = make_node();
            last = last->links[0];
        }
        last->links[0] = closed ? first : nullptr;
        keep(first, percent);
    }
}

static __attribute__((noinline)) node *build_tree(int depth)
{
    node *root = make_node();
    for (int i = 0; depth > 0 && i < 2; i++)
        root->links[i] = build_tree(depth - 1);
    return root;
}

static __attribute__((noinline)) void build_graph(long blocks, long percent)
{
    std::vector<node *> all(blocks);
    for (node *&one : all)
        one = make_node();
    for (long i = 0; i < blocks; i++) /* sparse, so that much hangs on little */
        if (draw(2))
            all[i]->links[draw(3)] = all[draw(blocks)];
    for (node *one : all)
        if (draw(3) == 0)
            keep(one, percent);
    memset(static_cast<void *>(all.data()), 0, blocks * sizeof(node *));
}

static __attribute__((noinline)) void build_strings(long blocks, long percent)
{
    for (long i = 0; i < blocks; i++) {
        auto *text = new std::string(30 + draw(100), 'x');
        if (draw(100) >= percent)
            delete text;
    }
}

static __attribute__((noinline)) void build_maps(long blocks, long percent)
{
    for (long left = blocks; left > 0; left -= 20) {
        auto *map = new std::map<int, std::string>;
        for (int i = 0; i < 20; i++)
            (*map)[i] = std::string(40, 'y');
        if (draw(100) >= percent)
            delete map;
    }
}

static void *in_thread(void *argument)
{
    const long *numbers = static_cast<long *>(argument);
    build_lists(numbers[0], numbers[1], false);
    return nullptr;
}

static __attribute__((noinline)) void build(const char *shape, long blocks, long percent)
{
    long numbers[] = {blocks, percent};
    if (!strcmp(shape, "lists") || !strcmp(shape, "rings"))
        build_lists(blocks, percent, shape[0] == 'r');
    for (long left = blocks; !strcmp(shape, "trees") && left > 0; left -= 31)
        keep(build_tree(4), percent);
    if (!strcmp(shape, "graph"))
        build_graph(blocks, percent);
    if (!strcmp(shape, "strings"))
        build_strings(blocks, percent);
    if (!strcmp(shape, "maps"))
        build_maps(blocks, percent);
    for (int i = 0; !strcmp(shape, "threads") && i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, nullptr, in_thread, numbers);
        pthread_join(thread, nullptr);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    long blocks = atol(argv[2]);
    roots = static_cast<node **>(calloc(4 * blocks, sizeof *roots));
    build(argv[1], blocks, atol(argv[3]));
    printf("%ld\n", root_count);
    return 0;
}
