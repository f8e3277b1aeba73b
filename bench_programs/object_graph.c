/* SPDX-License-Identifier: MIT
 *
 * object_graph.c: a graph of blocks of many sizes that lives as long as the program.
 *
 * Nodes with a name and a payload, and edges between them that each are a block of their own and
 * hang in two lists. The graph is built, then for a long time a random node is taken out with
 * all of its edges and a new one put in, so that the blocks of one node lie ever further apart:
 * the aged heap of an editor, a compiler or a database, where placement and fragmentation decide
 * and where following the edges shows the locality that the allocator has left.
 *
 * Idea: ours, after the lifetimes that Zorn & Grunwald found ("Empirical measurements of six
 * allocation-intensive C programs", SIGPLAN Notices 27(12), 1992): sizes few, lifetimes mixed.
 */
#include "bench_programs/bench.h"

struct edge {
    struct node *from, *to;
    struct edge *next_out, *next_in;
    struct edge **at_out, **at_in; /* the links that point here */
};

struct node {
    uint64_t key;
    char *name;
    void *payload;
    size_t payload_bytes;
    struct edge *out, *in;
};

static void edge_add(struct node *from, struct node *to)
{
    struct edge *edge = allocate(sizeof *edge);
    *edge = (struct edge){from, to, from->out, to->in, &from->out, &to->in};
    if (edge->next_out)
        edge->next_out->at_out = &edge->next_out;
    if (edge->next_in)
        edge->next_in->at_in = &edge->next_in;
    from->out = edge;
    to->in = edge;
}

static void edge_remove(struct edge *edge)
{
    *edge->at_out = edge->next_out;
    if (edge->next_out)
        edge->next_out->at_out = edge->at_out;
    *edge->at_in = edge->next_in;
    if (edge->next_in)
        edge->next_in->at_in = edge->at_in;
    free(edge);
}

/* Half of the payloads are small, some of a page and more. */
static size_t payload_size(uint64_t *random)
{
    uint64_t kind = random_below(random, 100);
    if (kind < 60)
        return random_between(random, 16, 64);
    if (kind < 95)
        return random_between(random, 64, 512);
    return random_between(random, 512, 8192);
}

static struct node *node_new(uint64_t *random)
{
    struct node *node = allocate(sizeof *node);
    *node = (struct node){.key = random_next(random), .payload_bytes = payload_size(random)};
    node->payload = allocate(node->payload_bytes);
    block_sign(node->payload, node->payload_bytes, node->key);
    char name[24];
    snprintf(name, sizeof name, "%0*" PRIx64, (int)random_between(random, 4, 16),
             node->key & 0xffff);
    node->name = allocate(strlen(name) + 1);
    strcpy(node->name, name);
    return node;
}

static void node_free(struct node *node)
{
    while (node->out)
        edge_remove(node->out);
    while (node->in)
        edge_remove(node->in);
    block_check(node->payload, node->payload_bytes, node->key);
    free(node->payload);
    free(node->name);
    free(node);
}

static void connect_randomly(struct node **nodes, uint64_t count, uint64_t at, uint64_t *random)
{
    for (uint64_t edges = random_between(random, 1, 5); edges; edges--)
        edge_add(nodes[at], nodes[random_below(random, count)]);
}

/* Sums what lies within two steps of a node. */
static uint64_t neighbourhood(const struct node *node)
{
    uint64_t sum = node->key;
    for (const struct edge *edge = node->out; edge; edge = edge->next_out) {
        sum += strtoull(edge->to->name, NULL, 16);
        for (const struct edge *far = edge->to->out; far; far = far->next_out)
            sum += mix(far->to->key);
    }
    return sum;
}

int main(int argc, char **argv)
{
    uint64_t count = 50000, changes = 500000, checksum = 0, random = 1;
    const struct bench_option options[] = {
        {"nodes", "nodes that live at any time", 1, 100000000, &count},
        {"changes", "nodes replaced, one by one", 0, 1000000000, &changes},
        {0},
    };
    bench_arguments(argc, argv, "a long-lived graph of mixed blocks", options);
    struct node **nodes = allocate(count * sizeof *nodes);
    for (uint64_t i = 0; i < count; i++) {
        nodes[i] = node_new(&random);
        connect_randomly(nodes, i + 1, i, &random);
    }
    for (uint64_t i = 0; i < changes; i++) {
        uint64_t at = random_below(&random, count);
        node_free(nodes[at]);
        nodes[at] = node_new(&random);
        connect_randomly(nodes, count, at, &random);
        checksum += neighbourhood(nodes[random_below(&random, count)]);
    }
    for (uint64_t i = 0; i < count; i++) {
        checksum += neighbourhood(nodes[i]);
        node_free(nodes[i]);
    }
    free(nodes);
    print_checksum(checksum);
    return 0;
}
