/* SPDX-License-Identifier: MIT
 *
 * random.h: the one place of the library from which random numbers come.
 *
 *     random_seed   a secret, or a start for a sequence: nobody outside the process foresees it
 *     random_draw   the next word of a sequence (splitmix64)
 *     random_step   the same where each instruction counts (a linear congruence)
 *
 * A sequence is a word of the caller's, which may have any value. Whoever sees many numbers of a
 * sequence can compute the others: what must stay secret is a seed itself.
 */
#ifndef ALLOTROPE_VM_RANDOM_H
#define ALLOTROPE_VM_RANDOM_H

#include <stdatomic.h>
#include <stdint.h>

/* 2^64 by the golden ratio, odd: multiples of it visit all words before one comes again. */
#define RANDOM_GAMMA UINT64_C(0x9E3779B97F4A7C15)

/* Another one at each call, in each process and in each child of a fork. Takes no system call. */
uint64_t random_seed(void);

/* Stafford's variant 13 of splitmix64's finaliser: another word for each word. */
static inline uint64_t random_mix(uint64_t word)
{
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014, figure
 * 13. */
static inline uint64_t random_draw(uint64_t *sequence)
{
    return random_mix(*sequence += RANDOM_GAMMA);
}

/* Like random_draw(), but from a sequence that threads share: no two draw the same element. */
static inline uint64_t random_draw_shared(_Atomic uint64_t *sequence)
{
    return random_mix(atomic_fetch_add_explicit(sequence, RANDOM_GAMMA, memory_order_relaxed) +
                      RANDOM_GAMMA);
}

/* 24 bits: the upper ones, which are the good ones, of a linear congruence (the constants of
 * Knuth's MMIX). */
static inline uint32_t random_step(uint64_t *sequence)
{
    *sequence = *sequence * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*sequence >> 40);
}

/* A word that was drawn, brought to [0, limit). limit: up to 2^32. */
static inline uint32_t random_reduce(uint64_t word, uint64_t limit)
{
    return (uint32_t)((word >> 32) * limit >> 32);
}

#endif
