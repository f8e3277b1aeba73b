/* SPDX-License-Identifier: MIT
 *
 * random.h: the one generator of measured programs and of C tests: SplitMix64 (Steele, Lea, Flood,
 * "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
 *
 * rand() may take a lock, and its sequence differs between libraries. The sequences here are part
 * of what is measured: a change of this file changes every figure.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_RANDOM_H
#define ALLOTROPE_BENCH_PROGRAMS_RANDOM_H

#include <stdint.h>

/* The generator's finaliser: a good hash of one word. */
static inline uint64_t mix(uint64_t word)
{
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
    word = (word ^ word >> 27) * 0x94d049bb133111eb;
    return word ^ word >> 31;
}

/* The state is any number. */
static inline uint64_t random_next(uint64_t *state)
{
    return mix(*state += 0x9e3779b97f4a7c15);
}

/* Uniform in [0, limit), limit < 2^32. */
static inline uint64_t random_below(uint64_t *state, uint64_t limit)
{
    return (random_next(state) >> 32) * limit >> 32;
}

/* Uniform in [low, high]. */
static inline uint64_t random_between(uint64_t *state, uint64_t low, uint64_t high)
{
    return low + random_below(state, high - low + 1);
}

#endif
