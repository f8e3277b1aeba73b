/* SPDX-License-Identifier: MIT
 *
 * random_mutator.c: random changes of a graph of objects in the runtime's heap, and the same in a
 * model that no collector touches. Both are compared from time to time, as they are reached from
 * the handles: same nodes, same links, what is shared is shared, nothing twice.
 *
 *     random_mutator SEED CHANGES [RECORD]         status 3: the heap is not the model
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_programs/random.h"
#include "bench_programs/runtime/barrier.h"
#include "bench_programs/runtime/policy.h"
#include "bench_programs/runtime/scavenge.h"

enum {
    HANDLES = 24,
    SMALL_LINKS = 5,
    LARGE_LINKS = 700, /* old from the start */
    MOST_NODES = 1 << 20,
    YOUNG_BYTES = 16384,
    OLD_BYTES = 1 << 26,
    COMPARE_EACH = 500
};

/* Slot 0 of a node's object is its number, the others are links. Of bytes: the number alone. */
struct node {
    enum kind kind;
    uint32_t link_count;
    int64_t *links; /* numbers of nodes; negative: that integer */
    value seen_at;  /* in this comparison */
    uint64_t seen_in;
};

static struct node nodes[MOST_NODES];
static int64_t node_count;
static value handles[HANDLES], class;
static int64_t handle_nodes[HANDLES];
static uint64_t seed, comparison;

static size_t any(size_t limit)
{
    return random_below(&seed, limit);
}

static _Noreturn void differs(const char *what, int64_t number)
{
    fprintf(stderr, "random_mutator: %s: %s of node %ld\n", policy_name, what, (long)number);
    exit(3);
}

static void compare(value v, int64_t number)
{
    if (number < 0 || is_integer(v)) {
        if (v != integer_value(number))
            differs("the model has an integer, or the heap has, instead", number);
        return;
    }
    struct node *node = &nodes[number];
    if (node->seen_in == comparison) {
        if (node->seen_at != v)
            differs("two copies", number);
        return;
    }
    node->seen_in = comparison;
    node->seen_at = v;
    struct object *object = object_of(v);
    if (object->class != class || object->kind != node->kind)
        differs("another class or kind", number);
    if (node->kind == KIND_BYTES) {
        if (memcmp(bytes_of(object), &number, sizeof number) != 0)
            differs("other bytes", number);
        return;
    }
    if (object->size != node->link_count + 1 || object->slots[0] != integer_value(number))
        differs("another size or number", number);
    for (uint32_t i = 0; i < node->link_count; i++)
        compare(object->slots[i + 1], node->links[i]);
}

static void compare_all(void)
{
    comparison++;
    for (int i = 0; i < HANDLES; i++)
        compare(handles[i], handle_nodes[i]);
}

static void make(size_t handle)
{
    static const enum kind kinds[] = {KIND_SLOTS, KIND_SLOTS, KIND_SLOTS,
                                      KIND_SLOTS, KIND_FRAME, KIND_BYTES};
    if (node_count == MOST_NODES)
        heap_fail("the model is full");
    int64_t number = node_count++;
    struct node *node = &nodes[number];
    node->kind = kinds[any(sizeof kinds / sizeof *kinds)];
    bool is_large = node->kind == KIND_SLOTS && any(200) == 0;
    if (node->kind != KIND_BYTES)
        node->link_count = is_large ? LARGE_LINKS : 1 + (uint32_t)any(SMALL_LINKS);
    node->links = malloc((node->link_count + 1) * sizeof *node->links);
    for (uint32_t i = 0; i < node->link_count; i++)
        node->links[i] = -1;
    size_t size = node->kind == KIND_BYTES ? 8 + any(40) : node->link_count + 1;
    struct object *object = allocate(class, node->kind, size, integer_value(-1));
    if (node->kind == KIND_BYTES)
        memcpy(bytes_of(object), &number, sizeof number);
    else
        object->slots[0] = integer_value(number); /* the newest object: no barrier */
    handles[handle] = value_of(object);
    handle_nodes[handle] = number;
}

/* Whether the handle has links; and one of them. */
static bool has_links(size_t handle, uint32_t *link)
{
    if (handle_nodes[handle] < 0 || nodes[handle_nodes[handle]].link_count == 0)
        return false;
    *link = (uint32_t)any(nodes[handle_nodes[handle]].link_count);
    return true;
}

static void change(void)
{
    size_t a = any(HANDLES), b = any(HANDLES), kind = any(100);
    uint32_t link;
    if (kind < 35) {
        make(a);
    } else if (kind < 70 && has_links(a, &link)) {
        bool is_frame = nodes[handle_nodes[a]].kind == KIND_FRAME;
        if (is_frame) /* never old, so without a barrier, as the interpreter does */
            object_of(handles[a])->slots[link + 1] = handles[b];
        else
            store(object_of(handles[a]), link + 1, handles[b]);
        nodes[handle_nodes[a]].links[link] = handle_nodes[b];
    } else if (kind < 75 && has_links(a, &link)) {
        store(object_of(handles[a]), link + 1, integer_value(-7));
        nodes[handle_nodes[a]].links[link] = -7;
    } else if (kind < 95 && has_links(b, &link)) {
        handles[a] = object_of(handles[b])->slots[link + 1];
        handle_nodes[a] = nodes[handle_nodes[b]].links[link];
    } else {
        handles[a] = handles[b];
        handle_nodes[a] = handle_nodes[b];
    }
}

int main(int count, char **words)
{
    if (count < 3)
        return 2;
    seed = strtoull(words[1], NULL, 10);
    uint64_t changes = strtoull(words[2], NULL, 10);
    heap_open(YOUNG_BYTES, OLD_BYTES);
    policy_open(count > 3 ? words[3] : NULL);
    struct object *of_itself = allocate_old(0, KIND_SLOTS, 0, 0);
    class = of_itself->class = value_of(of_itself);
    for (int i = 0; i < HANDLES; i++) {
        handles[i] = integer_value(handle_nodes[i] = -1);
        root_add(&handles[i]);
    }
    scavenges.verify = true;
    policy_start();
    for (uint64_t i = 0; i < changes; i++) {
        change();
        if (i % COMPARE_EACH == 0)
            compare_all();
    }
    compare_all();
    printf("{\"nodes\": %ld, \"scavenges\": %lu, \"old_bytes\": %lu}\n", (long)node_count,
           (unsigned long)scavenges.count, (unsigned long)(heap.old_top - heap_old_start));
    for (int64_t i = 0; i < node_count; i++)
        free(nodes[i].links);
    return 0;
}
