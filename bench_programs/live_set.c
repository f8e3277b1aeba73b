/* SPDX-License-Identifier: MIT
 *
 * live_set.c: a set of live blocks of constant number, freed in random order.
 *
 * Each step frees a random block of the set and allocates another in its place, with sizes drawn
 * from what gawk asks for. Pairs in last-in-first-out order flatter whoever keeps the block that
 * was freed last; here the block comes from anywhere, as in a program that has been running for
 * a while. Each thread has a set of its own. With timed=1 the nanoseconds per pair are printed,
 * of CPU and of wall time, each the mean of the threads; alone=1 does all but allocate and free, to
 * know what that costs. distant=N first allocates N MiB in blocks of 3 MiB that nobody touches, so
 * that the set lies far from the first block, as in a program with a large heap.
 *
 * Idea: the random-order live set of mimalloc-bench's and jemalloc's own micro benchmarks, with
 * recorded sizes in place of uniform ones.
 */
#include "bench_programs/recorded_sizes.h"

#include <time.h>

static uint64_t threads = 1, blocks = 10000, pairs = 10000000, timed = 0, alone = 0, distant = 0;
static pthread_barrier_t all_ready;
static _Atomic uint64_t wall_nanoseconds, cpu_nanoseconds; /* of all threads together */

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* One random number a step: its upper half chooses the block, its lower the size. */
static uint64_t replace_blocks(unsigned char **set, uint64_t random)
{
    uint64_t checksum = 0;
    for (uint64_t i = 0; i < pairs; i++) {
        uint64_t number = random_next(&random);
        unsigned char **slot = &set[(number >> 32) * blocks >> 32];
        size_t size = size_sample[number % SIZE_SAMPLE];
        checksum += **slot;
        if (!alone) {
            free(*slot);
            *slot = allocate(size);
        }
        **slot = (unsigned char)size;
    }
    return checksum;
}

static void *volatile untouched; /* volatile: no block is optimised away */

static void allocate_untouched(uint64_t mebibytes)
{
    enum { EACH = 3 };
    for (uint64_t i = 0; i < mebibytes; i += EACH)
        untouched = allocate((size_t)EACH << 20);
}

static void *run(void *numbers)
{
    uint64_t random = mix(__atomic_fetch_add((uint64_t *)numbers, 1, __ATOMIC_RELAXED));
    unsigned char **set = allocate(blocks * sizeof *set);
    for (uint64_t i = 0; i < blocks; i++) {
        size_t size = size_sample[random_below(&random, SIZE_SAMPLE)];
        set[i] = allocate(size);
        *set[i] = (unsigned char)size;
    }
    pthread_barrier_wait(&all_ready);
    uint64_t wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
    uint64_t checksum = replace_blocks(set, random);
    cpu_nanoseconds += now(CLOCK_THREAD_CPUTIME_ID) - cpu;
    wall_nanoseconds += now(CLOCK_MONOTONIC) - wall;
    for (uint64_t i = 0; i < blocks; i++) {
        checksum += *set[i];
        free(set[i]);
    }
    free(set);
    return (void *)(uintptr_t)checksum;
}

int main(int argc, char **argv)
{
    static const struct bench_option options[] = {
        {"threads", "threads, each with a set of its own", 1, BENCH_MAX_THREADS, &threads},
        {"blocks", "live blocks of each", 1, 100000000, &blocks},
        {"pairs", "pairs of free and malloc of each", 1, 1000000000000, &pairs},
        {"timed", "1: print nanoseconds per pair", 0, 1, &timed},
        {"distant", "MiB of untouched blocks before the set", 0, 1 << 20, &distant},
        {"alone", "1: everything but free and malloc", 0, 1, &alone},
        {0}};
    bench_arguments(argc, argv, "a live set freed in random order, sizes from gawk", options);
    fill_size_sample();
    allocate_untouched(distant);
    pthread_barrier_init(&all_ready, NULL, (unsigned)threads);
    uint64_t number = 1;
    uint64_t checksum = threads_run(threads, run, &number);
    double all_pairs = (double)(pairs * threads);
    if (timed)
        printf("%.2f ns CPU, %.2f ns wall\n", (double)cpu_nanoseconds / all_pairs,
               (double)wall_nanoseconds / all_pairs);
    print_checksum(checksum);
    return 0;
}
