/* SPDX-License-Identifier: MIT
 *
 * false_sharing.c: does an allocator put blocks of several threads into one cache line?
 *
 * Two blocks in one cache line make their writers' processors fight over the line, although the
 * threads share no data. Here each thread writes to a small block of its own, over and over. Under
 * an allocator without the fault the program takes no longer with more threads, as long as there is
 * a processor for each.
 *
 *     passive=0    *active* false sharing: the allocator hands pieces of one line to several
 *                  threads. Each thread allocates a block, writes to it and frees it
 *     passive=1    *passive* false sharing: a thread frees a block that came from another thread's
 *                  line, and the allocator hands it out to that thread again. The main thread
 *                  allocates the first block of each thread, which the thread writes to and frees.
 *                  From then on threads allocate for themselves, and may get pieces of the old line
 *                  back
 *
 * `rounds` is the number of blocks of all threads together: each has an equal share of them.
 *
 * Idea: cache-thrash and cache-scratch of Berger, McKinley, Blumofe & Wilson, "Hoard", ASPLOS
 * 2000, sections 2.1 and 5.3.
 */
#include "bench_programs/bench.h"

struct work {
    uint64_t first, last; /* the rounds of this thread */
    uint64_t writes, bytes;
    unsigned char *block; /* of the main thread, or NULL */
};

static uint64_t write_to(volatile unsigned char *block, const struct work *work, uint64_t round)
{
    for (uint64_t i = 0; i < work->bytes; i++)
        block[i] = (unsigned char)round;
    for (uint64_t i = 0; i < work->writes; i++)
        block[i % work->bytes]++;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < work->bytes; i++)
        sum = mix(sum + block[i]);
    return sum;
}

static void *run(void *argument)
{
    struct work *work = argument;
    uint64_t sum = 0;
    for (uint64_t round = work->first; round < work->last; round++) {
        unsigned char *block = work->block ? work->block : allocate(work->bytes);
        work->block = NULL;
        sum += write_to(block, work, round);
        free(block);
    }
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
    uint64_t threads = 1, rounds = 200000, writes = 1000, bytes = 16, passive = 0, checksum = 0;
    const struct bench_option options[] = {
        {"threads", "threads", 1, BENCH_MAX_THREADS, &threads},
        {"rounds", "blocks allocated in all", 1, 10000000000, &rounds},
        {"writes", "writes to each block", 0, 10000000000, &writes},
        {"bytes", "size of a block", 1, 4096, &bytes},
        {"passive", "1: the threads' first blocks come from the main thread", 0, 1, &passive},
        {0},
    };
    bench_arguments(argc, argv, "false sharing, active or passive", options);
    struct work work[BENCH_MAX_THREADS];
    pthread_t ids[BENCH_MAX_THREADS];
    for (uint64_t i = 0; i < threads; i++)
        work[i] = (struct work){rounds * i / threads, rounds * (i + 1) / threads, writes, bytes,
                                passive ? allocate(bytes) : NULL};
    for (uint64_t i = 0; i < threads; i++)
        ids[i] = thread_start(run, &work[i]);
    for (uint64_t i = 0; i < threads; i++) {
        void *sum;
        pthread_join(ids[i], &sum);
        checksum += (uintptr_t)sum;
        free(work[i].block);
    }
    print_checksum(checksum);
    return 0;
}
