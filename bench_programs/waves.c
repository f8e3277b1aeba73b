/* SPDX-License-Identifier: MIT
 *
 * waves.c: threads that fill their heaps and empty them, wave after wave.
 *
 * In each wave the threads are new. Each allocates blocks, most of them small and a few of some
 * KB or hundreds of KB, keeps some, frees others, and swaps blocks with a shared table, so that
 * some are freed by another thread than the one that took them. At its end it frees all that it
 * keeps. Between two waves most of the heap is free. An allocator that gives it all back has every
 * wave's pages cleared anew; one that keeps all of it never shrinks.
 *
 * Idea: mstress of mimalloc-bench (D. Leijen).
 */
#include <stdatomic.h>

#include "bench_programs/bench.h"

enum { TRANSFERS = 1000, SIGNED_LEAST = 16 };

static uint64_t threads = 2, waves = 25, scale = 50;
static _Atomic uint64_t wave_number;
static uint64_t *_Atomic transfers[TRANSFERS];

/* One in a hundred is up to eight times as large, one in ten of these up to a hundred times. */
static size_t some_words(uint64_t *random)
{
    uint64_t words = random_below(random, 100) + SIGNED_LEAST / sizeof(uint64_t);
    if (random_below(random, 100) == 0)
        words *= random_below(random, 10) == 0 ? 100 : 8;
    return words;
}

/* The first word tells the number of words, and each word its place. */
static uint64_t *make(uint64_t *random)
{
    size_t words = some_words(random);
    uint64_t *block = allocate(words * sizeof *block);
    block[0] = words;
    for (size_t i = 1; i < words; i++)
        block[i] = i ^ words;
    return block;
}

static void end(uint64_t *block)
{
    if (!block)
        return;
    for (size_t i = 1, words = block[0]; i < words; i++)
        if (block[i] != (i ^ words))
            bench_corrupt("a block has lost its contents", block);
    free(block);
}

/* Puts `block` into the table and takes what was there. */
/* NOLINTNEXTLINE(readability-non-const-parameter): what it points to is stored */
static uint64_t *swap(uint64_t *random, uint64_t *block)
{
    return atomic_exchange(&transfers[random_below(random, TRANSFERS)], block);
}

static void *work(void *argument)
{
    uint64_t random = mix(wave_number++), allocations = 100 * scale * 2;
    uint64_t kept_most = allocations / 2, kept = 0, done = 0;
    uint64_t **keep = allocate(kept_most * sizeof *keep);
    while (done < allocations || kept < kept_most) {
        done++;
        uint64_t *block = make(&random);
        if (kept < kept_most && random_below(&random, 2))
            keep[kept++] = block;
        else if (random_below(&random, 4) == 0)
            end(swap(&random, block));
        else
            end(block);
        if (kept > 0 && random_below(&random, 4) == 0)
            end(keep[--kept]);
        if (done > 4 * allocations)
            break;
    }
    while (kept > 0)
        end(keep[--kept]);
    free(keep);
    return argument;
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {"threads", "of a wave", 1, BENCH_MAX_THREADS, &threads},
        {"waves", "one after the other", 1, 1000000, &waves},
        {"scale", "hundreds of blocks that a thread keeps", 1, 100000, &scale},
        {0},
    };
    bench_arguments(argc, argv, "threads fill their heaps and empty them", options);
    for (uint64_t i = 0; i < waves; i++)
        threads_run(threads, work, NULL);
    for (size_t i = 0; i < TRANSFERS; i++)
        end(transfers[i]);
    print_checksum(wave_number);
    return 0;
}
