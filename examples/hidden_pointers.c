/* SPDX-License-Identifier: MIT
 *
 * hidden_pointers.c: a list with one link for both directions, which holds no pointer at all.
 *
 * A node has the exclusive or of its neighbours' hidden pointers. No collector sees such a list.
 * Since every pointer was hidden by allotrope_gc_hide its nodes are kept all the same.
 */
#include <allotrope/gc.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
    uintptr_t both; /* the hidden pointers of both neighbours; 0 for none */
    long value;
};

enum { NODES = 1000 };

/* The node of a pointer that stays hidden. */
static struct node *look(uintptr_t hidden)
{
    return (struct node *)~hidden;
}

/* Returns the new end of the list; the old one when there is no memory. */
static uintptr_t append(uintptr_t end, long value)
{
    struct node *node = malloc(sizeof *node);
    uintptr_t hidden = node ? allotrope_gc_hide(node) : 0;
    if (!hidden) {
        free(node);
        return end;
    }
    *node = (struct node){end, value};
    if (end)
        look(end)->both ^= hidden;
    return hidden;
}

/* Frees the nodes from an end on, and returns the sum of their values. */
static long take_apart(uintptr_t end, int *count)
{
    long sum = 0;
    for (uintptr_t before = 0; end; ++*count) {
        struct node *node = allotrope_gc_reveal(end);
        uintptr_t next = node->both ^ before;
        sum += node->value;
        before = end;
        end = next;
        free(node);
    }
    return sum;
}

int main(void)
{
    uintptr_t end = 0;
    int count = 0;
    for (long i = 0; i < NODES; i++)
        end = append(end, i);
    for (int i = 0; i < 3 && allotrope_gc_collect; i++)
        allotrope_gc_collect();
    long sum = take_apart(end, &count);
    printf("%d nodes, sum %ld\n", count, sum);
    return count == NODES && sum == (long)NODES * (NODES - 1) / 2 ? 0 : 1;
}
