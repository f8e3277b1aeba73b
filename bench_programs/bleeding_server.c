/* SPDX-License-Identifier: MIT
 *
 * bleeding_server.c: a server whose sessions outlive the threads that serve them.
 *
 * Each of several lanes holds a table of live blocks. A thread replaces random blocks of its
 * lane for a while, then starts its successor, hands it the table and ends: blocks "bleed" from
 * thread to thread. So blocks are freed by others than those who allocated them, out of order,
 * and the heaps of ended threads must find new users or memory is lost with every generation.
 *
 * Idea: Larson & Krishnan, "Memory Allocation for Long-Running Server Applications", ISMM 1998.
 * Their program runs for a time; this one for a number of operations, so that it can be checked.
 */
#include "bench_programs/bench.h"

#include <semaphore.h>

struct slot {
    void *block;
    size_t bytes;
    uint64_t signature;
};

struct lane {
    struct slot *slots;
    uint64_t slot_count, operations, generations; /* operations: of each generation */
    uint64_t random, checksum;
    pthread_t thread; /* the generation before, until its successor has seen it end */
    sem_t done;
};

static void slot_fill(struct lane *lane, struct slot *slot)
{
    slot->bytes = random_between(&lane->random, 16, 500);
    slot->signature = random_next(&lane->random);
    slot->block = allocate(slot->bytes);
    block_sign(slot->block, slot->bytes, slot->signature);
}

static void slot_empty(struct lane *lane, struct slot *slot)
{
    block_check(slot->block, slot->bytes, slot->signature);
    lane->checksum += mix(slot->signature + slot->bytes);
    free(slot->block);
}

/* One generation; the last one wakes whoever waits for the lane. */
static void *serve(void *argument)
{
    struct lane *lane = argument;
    if (lane->thread)
        pthread_join(lane->thread, NULL);
    for (uint64_t i = 0; i < lane->operations; i++) {
        struct slot *slot = &lane->slots[random_below(&lane->random, lane->slot_count)];
        slot_empty(lane, slot);
        slot_fill(lane, slot);
    }
    lane->thread = pthread_self();
    if (--lane->generations)
        thread_start(serve, lane);
    else
        sem_post(&lane->done);
    return NULL;
}

static void lane_start(struct lane *lane)
{
    sem_init(&lane->done, 0, 0);
    thread_start(serve, lane);
}

static void lane_join(struct lane *lane)
{
    while (sem_wait(&lane->done))
        ;
    pthread_join(lane->thread, NULL);
    sem_destroy(&lane->done);
}

int main(int argc, char **argv)
{
    uint64_t lanes = 8, threads = 1, slots = 1000, operations = 30000, generations = 50;
    const struct bench_option options[] = {
        {"lanes", "tables of live blocks", 1, BENCH_MAX_THREADS, &lanes},
        {"threads", "lanes served at once", 1, BENCH_MAX_THREADS, &threads},
        {"slots", "live blocks of a lane", 1, 100000000, &slots},
        {"operations", "blocks that a thread replaces before it ends", 0, 1000000000, &operations},
        {"threadlife", "threads that serve a lane in turn", 1, 1000000, &generations},
        {0},
    };
    bench_arguments(argc, argv, "a server with bleeding threads", options);
    struct lane *table = allocate(lanes * sizeof *table);
    uint64_t checksum = 0;
    for (uint64_t i = 0; i < lanes; i++) {
        table[i] = (struct lane){.slots = allocate(slots * sizeof(struct slot)),
                                 .slot_count = slots,
                                 .operations = operations,
                                 .generations = generations,
                                 .random = mix(i)};
        for (uint64_t j = 0; j < slots; j++)
            slot_fill(&table[i], &table[i].slots[j]);
    }
    for (uint64_t from = 0; from < lanes; from += threads) {
        uint64_t to = from + threads < lanes ? from + threads : lanes;
        for (uint64_t i = from; i < to; i++)
            lane_start(&table[i]);
        for (uint64_t i = from; i < to; i++)
            lane_join(&table[i]);
    }
    for (uint64_t i = 0; i < lanes; i++) {
        for (uint64_t j = 0; j < slots; j++)
            slot_empty(&table[i], &table[i].slots[j]);
        checksum += table[i].checksum;
        free(table[i].slots);
    }
    free(table);
    print_checksum(checksum);
    return 0;
}
