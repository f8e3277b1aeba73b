/* SPDX-License-Identifier: MIT
 *
 * pareto.c: sizes and lifetimes with heavy tails.
 *
 * Most blocks are small and die at once; a few are thousands of times as large or as old, and
 * they hold most of the memory. P(size > x) = (16 / x)^1.2 from 16 bytes up to 1 MiB; lifetimes,
 * counted in allocations, likewise with exponent 0.8. Size classes that fit one distribution
 * meet all of them at once, and old blocks pin the pages between which the young ones died.
 *
 * Idea: heavy-tailed lifetimes after Harchol-Balter & Downey ("Exploiting Process Lifetime
 * Distributions for Dynamic Load Balancing", ACM TOCS 15(3), 1997), put to a heap. Zorn &
 * Grunwald ("Evaluating Models of Memory Allocation", ACM TOMACS 4(1), 1994) show how far such
 * synthetic loads may stray from real programs: an extreme to look at, not a stand-in for one.
 *
 * The blocks wait for their end in a binary heap by time of death.
 */
#include "bench_programs/bench.h"

#include <math.h>

enum { LARGEST = 1 << 20 };

struct mortal {
    uint64_t death, bytes, signature;
    void *block;
};

struct queue {
    struct mortal *mortals;
    uint64_t length, capacity;
};

/* Uniform in (0, 1]. */
static double uniform(uint64_t *random)
{
    return (double)((random_next(random) >> 11) + 1) * 0x1p-53;
}

/* 16 u^(-1 / 1.2), with the exponent put together from square roots, which every machine rounds
 * alike: 1/2 + 1/4 + 1/16 + 1/64 = 0.828 for 0.833. */
static uint64_t pareto_size(uint64_t *random)
{
    double half = sqrt(uniform(random)), quarter = sqrt(half);
    double sixteenth = sqrt(sqrt(quarter));
    double power = half * quarter * sixteenth * sqrt(sqrt(sixteenth));
    double size = 16 / power;
    return size < LARGEST ? (uint64_t)size : LARGEST;
}

/* u^(-1 / 0.8). */
static uint64_t pareto_lifetime(uint64_t *random, uint64_t longest)
{
    double u = uniform(random);
    double lifetime = 1 / (u * sqrt(sqrt(u)));
    return lifetime < (double)longest ? (uint64_t)lifetime : longest;
}

static void queue_add(struct queue *queue, struct mortal mortal)
{
    if (queue->length == queue->capacity) {
        queue->capacity = queue->capacity ? 2 * queue->capacity : 1024;
        queue->mortals = reallocate(queue->mortals, queue->capacity * sizeof *queue->mortals);
    }
    uint64_t at = queue->length++;
    for (; at && queue->mortals[(at - 1) / 2].death > mortal.death; at = (at - 1) / 2)
        queue->mortals[at] = queue->mortals[(at - 1) / 2];
    queue->mortals[at] = mortal;
}

static struct mortal queue_take(struct queue *queue)
{
    struct mortal first = queue->mortals[0], last = queue->mortals[--queue->length];
    uint64_t at = 0, child;
    while ((child = 2 * at + 1) < queue->length) {
        if (child + 1 < queue->length &&
            queue->mortals[child + 1].death < queue->mortals[child].death)
            child++;
        if (last.death <= queue->mortals[child].death)
            break;
        queue->mortals[at] = queue->mortals[child];
        at = child;
    }
    queue->mortals[at] = last;
    return first;
}

static void bury(struct queue *queue)
{
    struct mortal mortal = queue_take(queue);
    block_check(mortal.block, mortal.bytes, mortal.signature);
    free(mortal.block);
}

int main(int argc, char **argv)
{
    uint64_t allocations = 10000000, longest = 300000, checksum = 0, random = 1;
    const struct bench_option options[] = {
        {"allocations", "blocks in all", 1, 10000000000, &allocations},
        {"longest", "allocations after which any block is dead", 1, 1000000000, &longest},
        {0},
    };
    bench_arguments(argc, argv, "Pareto sizes and lifetimes", options);
    struct queue queue = {0};
    for (uint64_t now = 0; now < allocations; now++) {
        while (queue.length && queue.mortals[0].death <= now)
            bury(&queue);
        struct mortal mortal = {.bytes = pareto_size(&random)};
        mortal.death = now + pareto_lifetime(&random, longest);
        mortal.signature = random_next(&random);
        mortal.block = allocate(mortal.bytes);
        block_sign(mortal.block, mortal.bytes, mortal.signature);
        checksum += mix(mortal.bytes + mortal.death);
        queue_add(&queue, mortal);
    }
    while (queue.length)
        bury(&queue);
    free(queue.mortals);
    print_checksum(checksum);
    return 0;
}
