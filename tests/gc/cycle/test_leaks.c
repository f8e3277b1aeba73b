/* SPDX-License-Identifier: MIT
 *
 * test_leaks.c: which blocks are leaks, and which of these are direct, against graphs that the test
 * knows.
 */
#include "gc/cycle/leaks.h"

#include <string.h>

#include "alloc/blocks/blocks.h"
#include "gc/mark/mark.h"
#include "tests/unit/unit.h"
#include "vm/own_memory.h"

enum { MOST_NODES = 300, MOST_EDGES = 4, BYTES = 64, STACK_BYTES = 1 << 20 };

enum found { REACHED, INDIRECT, DIRECT };

struct node {
    void **block;
    unsigned edges[MOST_EDGES], edge_count;
    enum found found;
};
static struct node nodes[MOST_NODES];
static unsigned count;

static int make_heap(void **state)
{
    (void)state;
    own_memory_forked(); /* else mark_prepare takes us for a child, which has no helpers */
    return blocks_init(25, NULL) && mark_init(1, STACK_BYTES) ? 0 : -1;
}

static int begin(void **state)
{
    (void)state;
    count = 0;
    return 0;
}

static int free_nodes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < count; i++) {
        blocks_unretire(nodes[i].block);
        blocks_free(nodes[i].block);
    }
    blocks_flush_thread();
    return 0;
}

static unsigned new_node(void)
{
    void **block = blocks_alloc(BYTES);
    assert_non_null(block);
    memset(block, 0, blocks_usable_size(block));
    nodes[count] = (struct node){.block = block};
    return count++;
}

/* The first node's block has the lowest address, the last one's the highest. */
static void make_nodes(unsigned many)
{
    while (count < many)
        new_node();
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = i + 1; j < count; j++)
            if (nodes[j].block < nodes[i].block) {
                void **lower = nodes[j].block;
                nodes[j].block = nodes[i].block;
                nodes[i].block = lower;
            }
}

static void lead(unsigned from, unsigned to)
{
    struct node *node = &nodes[from];
    node->block[node->edge_count] = nodes[to].block;
    node->edges[node->edge_count++] = to;
}

static void note(void *visited, const void *block, bool is_direct)
{
    ++*(size_t *)visited;
    for (unsigned i = 0; i < count; i++)
        if (nodes[i].block == block)
            nodes[i].found = is_direct ? DIRECT : INDIRECT;
}

/* What a full collection does before. Returns how many leaks were visited. */
static size_t find_leaks(const unsigned *roots, unsigned root_count)
{
    struct mark_result result;
    size_t visited = 0, again = 0;
    mark_prepare();
    blocks_lock();
    blocks_set_local_free_bits(true);
    mark_begin();
    for (unsigned i = 0; i < root_count; i++) {
        uintptr_t inside = (uintptr_t)nodes[roots[i]].block + 1;
        mark_roots(&inside, &inside + 1);
    }
    mark_finish(0, &result);
    for (unsigned i = 0; i < count; i++)
        nodes[i].found = REACHED;
    bool found = leaks_visit(note, &visited);
    bool found_again = leaks_visit(note, &again);
    blocks_set_local_free_bits(false);
    blocks_unlock();
    assert_true(found && found_again);
    assert_int_equal(again, 0); /* they have marks, as if the program reached them */
    return visited;
}

static void assert_found(unsigned node, enum found found)
{
    assert_int_equal(nodes[node].found, found);
}

static void test_what_the_program_reaches_is_no_leak(void **state)
{
    (void)state;
    make_nodes(3);
    lead(0, 1);
    assert_int_equal(find_leaks((const unsigned[]){0}, 1), 1);
    assert_found(0, REACHED);
    assert_found(1, REACHED);
    assert_found(2, DIRECT);
}

static void test_the_first_of_a_list_is_direct_wherever_it_lies(void **state)
{
    (void)state;
    make_nodes(6);
    lead(0, 1);
    lead(1, 2);
    lead(5, 4);
    lead(4, 3);
    assert_int_equal(find_leaks(NULL, 0), 6);
    for (unsigned i = 0; i < 6; i++)
        assert_found(i, i == 0 || i == 5 ? DIRECT : INDIRECT);
}

static void test_what_two_leaks_share_is_indirect(void **state)
{
    (void)state;
    make_nodes(3);
    lead(0, 1);
    lead(2, 1);
    assert_int_equal(find_leaks(NULL, 0), 3);
    assert_found(0, DIRECT);
    assert_found(1, INDIRECT);
    assert_found(2, DIRECT);
}

static void test_one_of_a_circle_is_direct(void **state)
{
    (void)state;
    make_nodes(3);
    lead(0, 1);
    lead(1, 2);
    lead(2, 0);
    assert_int_equal(find_leaks(NULL, 0), 3);
    unsigned direct = 0;
    for (unsigned i = 0; i < 3; i++)
        direct += nodes[i].found == DIRECT;
    assert_int_equal(direct, 1);
}

static void test_none_of_a_circle_is_direct_that_another_leak_leads_to(void **state)
{
    (void)state;
    for (unsigned outside = 0; outside < 4; outside++) {
        begin(state);
        make_nodes(4);
        for (unsigned i = 1; i < 4; i++)
            lead((outside + i) % 4, (outside + i % 3 + 1) % 4);
        lead(outside, (outside + 2) % 4);
        assert_int_equal(find_leaks(NULL, 0), 4);
        for (unsigned i = 0; i < 4; i++)
            assert_found(i, i == outside ? DIRECT : INDIRECT);
        free_nodes(state);
    }
    begin(state);
}

/* A word that means the end of a block and the start of the next. */
static void test_a_leak_does_not_lead_to_its_neighbour(void **state)
{
    (void)state;
    make_nodes(MOST_NODES);
    assert_int_equal(find_leaks(NULL, 0), MOST_NODES);
    for (unsigned i = 0; i < count; i++)
        assert_found(i, DIRECT);
}

static void test_what_is_freed_is_no_leak_and_leads_nowhere(void **state)
{
    (void)state;
    make_nodes(3);
    lead(0, 1);
    lead(2, 0);
    blocks_retire(nodes[0].block, "free");
    assert_int_equal(find_leaks(NULL, 0), 2);
    assert_found(0, REACHED);
    assert_found(1, DIRECT);
    assert_found(2, DIRECT);
}

/* Random graphs. */

/* Which nodes another leads to, itself among them. */
static void reach(unsigned from, bool *reached)
{
    unsigned queue[MOST_NODES], queued = 0;
    memset(reached, 0, MOST_NODES * sizeof *reached);
    reached[from] = true;
    queue[queued++] = from;
    for (unsigned at = 0; at < queued; at++)
        for (unsigned i = 0; i < nodes[queue[at]].edge_count; i++) {
            unsigned to = nodes[queue[at]].edges[i];
            if (!reached[to])
                queue[queued++] = to;
            reached[to] = true;
        }
}

/* Each leak hangs on a direct one, and no direct one on another. */
static void assert_direct_ones_are_right(void)
{
    static bool reached[MOST_NODES], hangs[MOST_NODES];
    memset(hangs, 0, sizeof hangs);
    for (unsigned i = 0; i < count; i++) {
        if (nodes[i].found != DIRECT)
            continue;
        reach(i, reached);
        for (unsigned other = 0; other < count; other++) {
            assert_false(other != i && reached[other] && nodes[other].found == DIRECT);
            hangs[other] |= reached[other];
        }
    }
    for (unsigned i = 0; i < count; i++)
        assert_true(hangs[i] || nodes[i].found == REACHED);
}

static void test_each_leak_of_a_graph_hangs_on_a_direct_one(void **state)
{
    (void)state;
    static bool reached[MOST_NODES];
    uint64_t random = 11;
    for (int round = 0; round < 20; round++) {
        begin(state);
        make_nodes(MOST_NODES);
        for (unsigned i = 0; i < count; i++)
            for (unsigned edges = (unsigned)random_below(&random, 3); edges > 0; edges--)
                lead(i, (unsigned)random_below(&random, MOST_NODES));
        unsigned root = (unsigned)random_below(&random, MOST_NODES);
        reach(root, reached);
        find_leaks(&root, 1);
        for (unsigned i = 0; i < count; i++)
            assert_int_equal(nodes[i].found == REACHED, reached[i]);
        assert_direct_ones_are_right();
        free_nodes(state);
    }
    begin(state);
}

static void find_without_memory(void *unused)
{
    (void)unused;
    size_t visited = 0;
    struct mark_result result;
    mark_prepare();
    blocks_lock();
    mark_begin();
    mark_finish(0, &result);
    limit_address_space(0);
    require(!leaks_visit(note, &visited));
    require(visited == 0);
}

static void test_without_memory_no_leak_is_visited(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    make_nodes(1);
    assert_child_succeeds(find_without_memory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_the_program_reaches_is_no_leak, begin,
                                        free_nodes),
        cmocka_unit_test_setup_teardown(test_the_first_of_a_list_is_direct_wherever_it_lies, begin,
                                        free_nodes),
        cmocka_unit_test_setup_teardown(test_what_two_leaks_share_is_indirect, begin, free_nodes),
        cmocka_unit_test_setup_teardown(test_one_of_a_circle_is_direct, begin, free_nodes),
        cmocka_unit_test_setup_teardown(test_none_of_a_circle_is_direct_that_another_leak_leads_to,
                                        begin, free_nodes),
        cmocka_unit_test_setup_teardown(test_a_leak_does_not_lead_to_its_neighbour, begin,
                                        free_nodes),
        cmocka_unit_test_setup_teardown(test_what_is_freed_is_no_leak_and_leads_nowhere, begin,
                                        free_nodes),
        cmocka_unit_test_setup_teardown(test_each_leak_of_a_graph_hangs_on_a_direct_one, begin,
                                        free_nodes),
        cmocka_unit_test_setup_teardown(test_without_memory_no_leak_is_visited, begin, free_nodes),
    };
    return cmocka_run_group_tests(tests, make_heap, NULL);
}
