/* SPDX-License-Identifier: MIT
 *
 * phases.c: a program that changes its mind about sizes.
 *
 * Each phase fills the heap to the same number of bytes with blocks of another size, then frees
 * all but every twentieth, which stays for three phases more and pins what lies around it. What
 * one phase freed serves the next only if the allocator merges blocks, or gives whole pages from
 * one class to another; a heap that does neither ends with a share of memory for each size it
 * has ever seen. Then come the sizes again in another order. Peak memory is the figure.
 *
 * Idea: ramps, peaks and plateaus in Wilson, Johnstone, Neely & Boles, "Dynamic Storage
 * Allocation: A Survey and Critical Review", IWMM 1995; that sizes in rising order with
 * survivors are what fragments most is Robson's ("Bounds for Some Functions Concerning Dynamic
 * Storage Allocation", JACM 21(3), 1974).
 */
#include "bench_programs/bench.h"

static const uint64_t phase_sizes[] = {24,   72,  200, 520,  1300, 3200, 9000, 31000,
                                       9000, 520, 24,  3200, 72,   1300, 200,  31000};

enum {
    PHASE_SIZES = sizeof phase_sizes / sizeof *phase_sizes,
    SURVIVOR_EVERY = 20,
    SURVIVE_PHASES = 3
};

struct phase {
    void **blocks;
    uint64_t count, bytes, seed;
};

/* Sizes vary by an eighth about the phase's own. */
static uint64_t size_of(const struct phase *phase, uint64_t index)
{
    uint64_t random = mix(phase->seed + index);
    return phase->bytes + random_below(&random, phase->bytes / 8);
}

static uint64_t release(struct phase *phase, uint64_t index)
{
    uint64_t signature = phase->seed ^ index;
    block_check(phase->blocks[index], size_of(phase, index), signature);
    free(phase->blocks[index]);
    return mix(signature);
}

static void phase_fill(struct phase *phase, uint64_t number, uint64_t total)
{
    phase->bytes = phase_sizes[number % PHASE_SIZES];
    phase->seed = mix(number);
    phase->count = total / phase->bytes + 1;
    phase->blocks = allocate(phase->count * sizeof *phase->blocks);
    for (uint64_t i = 0; i < phase->count; i++) {
        phase->blocks[i] = allocate(size_of(phase, i));
        block_sign(phase->blocks[i], size_of(phase, i), phase->seed ^ i);
    }
}

static uint64_t phase_thin_out(struct phase *phase)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < phase->count; i++)
        if (i % SURVIVOR_EVERY)
            sum += release(phase, i);
    return sum;
}

static uint64_t phase_end(struct phase *phase)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < phase->count; i += SURVIVOR_EVERY)
        sum += release(phase, i);
    free(phase->blocks);
    return sum;
}

int main(int argc, char **argv)
{
    uint64_t phases = 160, megabytes = 8, checksum = 0;
    const struct bench_option options[] = {
        {"phases", "phases, one after another", 1, 1000000, &phases},
        {"megabytes", "live at the end of each phase", 1, 1000000, &megabytes},
        {0},
    };
    bench_arguments(argc, argv, "phase changes", options);
    struct phase *all = allocate(phases * sizeof *all);
    for (uint64_t i = 0; i < phases; i++) {
        phase_fill(&all[i], i, megabytes << 20);
        checksum += phase_thin_out(&all[i]);
        if (i >= SURVIVE_PHASES)
            checksum += phase_end(&all[i - SURVIVE_PHASES]);
    }
    for (uint64_t i = phases < SURVIVE_PHASES ? 0 : phases - SURVIVE_PHASES; i < phases; i++)
        checksum += phase_end(&all[i]);
    free(all);
    print_checksum(checksum);
    return 0;
}
