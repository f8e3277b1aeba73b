/* SPDX-License-Identifier: MIT
 *
 * recorded_sizes.h: sizes of blocks as gawk asks for them, in random order.
 *
 * A program draws a size by looking into a shuffled sample, which is one memory reference.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_RECORDED_SIZES_H
#define ALLOTROPE_BENCH_PROGRAMS_RECORDED_SIZES_H

#include "bench_programs/bench.h"

static const struct {
    uint32_t bytes, count;
} recorded_sizes[] = {
#include "bench_programs/data/gawk_sizes.inc"
};

enum { SIZE_SAMPLE = 4096 };
static uint16_t size_sample[SIZE_SAMPLE];

static inline uint64_t total_of_recorded(void)
{
    uint64_t total = 0;
    for (size_t i = 0; i < sizeof recorded_sizes / sizeof *recorded_sizes; i++)
        total += recorded_sizes[i].count;
    return total;
}

static inline void fill_size_sample(void)
{
    uint64_t total = total_of_recorded(), passed = 0;
    size_t filled = 0;
    for (size_t i = 0; i < sizeof recorded_sizes / sizeof *recorded_sizes; i++) {
        passed += recorded_sizes[i].count;
        while (filled < SIZE_SAMPLE && filled * total < passed * SIZE_SAMPLE)
            size_sample[filled++] = (uint16_t)recorded_sizes[i].bytes;
    }
    uint64_t random = 1;
    for (size_t i = SIZE_SAMPLE - 1; i > 0; i--) {
        size_t other = random_below(&random, i + 1);
        uint16_t size = size_sample[i];
        size_sample[i] = size_sample[other];
        size_sample[other] = size;
    }
}

#endif
