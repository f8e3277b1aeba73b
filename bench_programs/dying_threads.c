/* SPDX-License-Identifier: MIT
 *
 * dying_threads.c: many short threads, each of which leaves something behind.
 *
 * A thread allocates some hundred blocks, frees most of them, puts the rest into a table that
 * all share, takes what it finds there from threads long ended, and ends. Whatever an allocator
 * keeps for a thread (a cache, an arena, half-used pages) is made and must be taken over or
 * dissolved a few thousand times; and a free must still find its way to memory whose thread is
 * gone. Memory must not grow with the number of threads that have been.
 *
 * Idea: the exchange of blocks between threads that end is that of the stress test described by
 * Leijen, Zorn & de Moura, "Mimalloc: Free List Sharding in Action", MSR-TR-2019-18.
 */
#include "bench_programs/bench.h"

#include <stdatomic.h>

enum { TABLE_SLOTS = 4096 };

struct bequest {
    uint64_t bytes, signature;
    uint64_t rest[2]; /* the signature at the end of the smallest */
};

static struct bequest *_Atomic table[TABLE_SLOTS];

static struct bequest *bequest_new(uint64_t *random)
{
    uint64_t bytes = random_between(random, sizeof(struct bequest), 2000);
    struct bequest *bequest = allocate(bytes);
    bequest->bytes = bytes;
    bequest->signature = random_next(random);
    block_sign((char *)bequest + sizeof bequest->bytes, bytes - sizeof bequest->bytes,
               bequest->signature);
    return bequest;
}

static uint64_t bequest_free(struct bequest *bequest)
{
    if (!bequest)
        return 0;
    uint64_t bytes = bequest->bytes, signature = bequest->signature;
    block_check((char *)bequest + sizeof bequest->bytes, bytes - sizeof bequest->bytes, signature);
    free(bequest);
    return mix(bytes + signature);
}

struct life {
    uint64_t seed, blocks;
};

/* One thread's life: one block in eight is left to others. */
static void *live(void *argument)
{
    const struct life *life = argument;
    uint64_t random = mix(life->seed), sum = 0;
    for (uint64_t i = 0; i < life->blocks; i++) {
        struct bequest *bequest = bequest_new(&random);
        uint64_t fate = random_next(&random);
        if (fate % 8 == 0)
            bequest = atomic_exchange(&table[fate / 8 % TABLE_SLOTS], bequest);
        sum += bequest_free(bequest);
    }
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
    uint64_t lives = 4000, threads = 4, blocks = 500, checksum = 0;
    const struct bench_option options[] = {
        {"lives", "threads in all", 1, 100000000, &lives},
        {"threads", "threads at once", 1, BENCH_MAX_THREADS, &threads},
        {"blocks", "blocks that each allocates", 1, 100000000, &blocks},
        {0},
    };
    bench_arguments(argc, argv, "threads that end and leave blocks behind", options);
    pthread_t ids[BENCH_MAX_THREADS];
    struct life life[BENCH_MAX_THREADS];
    for (uint64_t i = 0; i < lives + threads; i++) {
        uint64_t at = i % threads;
        if (i >= threads) {
            void *sum;
            pthread_join(ids[at], &sum);
            checksum += (uintptr_t)sum;
        }
        if (i < lives) {
            life[at] = (struct life){i, blocks};
            ids[at] = thread_start(live, &life[at]);
        }
    }
    for (int i = 0; i < TABLE_SLOTS; i++)
        checksum += bequest_free(table[i]);
    print_checksum(checksum);
    return 0;
}
