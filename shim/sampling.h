/* SPDX-License-Identifier: MIT
 *
 * sampling.h: Poisson sampling of allocations by bytes.
 *
 * Every byte allocated is a sample with the same small chance, 1/rate, whoever asks for it; an
 * allocation is sampled when one of its bytes is. So one of s bytes is sampled with the chance
 * 1 - e^(-s/rate), and counting each that was as 1/chance allocations makes every sum over them
 * an unbiased estimate of the sum over all. The gaps between samples are exponentially
 * distributed, so only the bytes to the next one need be counted down.
 *
 * No libm: the allocators link nothing but libc.
 */
#ifndef ALLOTROPE_SHIM_SAMPLING_H
#define ALLOTROPE_SHIM_SAMPLING_H

#include <stdint.h>
#include <string.h>

/* The natural logarithm of a normal x > 0, to 1e-9: x = m 2^k, ln m = 2 artanh((m - 1)/(m + 1)). */
static inline double natural_logarithm(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0xFFFFFFFFFFFFF) | (UINT64_C(1023) << 52);
    memcpy(&x, &bits, sizeof x);
    double t = (x - 1) / (x + 1), square = t * t, sum = 0;
    for (int i = 19; i >= 1; i -= 2)
        sum = sum * square + 1.0 / i;
    return 2 * t * sum + exponent * 0.693147180559945309;
}

/* 1 - e^-x for x >= 0, to 1e-9 of its value: the series below 1/2, halved arguments above. */
static inline double chance_of_any(double x)
{
    if (x > 40)
        return 1;
    if (x > 0.5) {
        double half = chance_of_any(x / 2);
        return half * (2 - half);
    }
    double sum = 0;
    for (int i = 12; i >= 1; i--)
        sum = x / i * (1 - sum);
    return sum;
}

/* xorshift64*; the state is never 0 (Vigna, "An experimental exploration of Marsaglia's xorshift
 * generators, scrambled", 2016). */
static inline uint64_t sample_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* Bytes to the next sample: an allocation of as many or more is sampled. Rate 1 gives 0: all are.
 */
static inline uint64_t bytes_to_next_sample(uint64_t rate, uint64_t *random)
{
    if (rate <= 1)
        return 0;
    double uniform = ((double)(sample_random(random) >> 11) + 0.5) / (double)(UINT64_C(1) << 53);
    return 1 + (uint64_t)(-natural_logarithm(uniform) * (double)rate);
}

/* For how many allocations of its size a sampled one of `bytes` stands. */
static inline double sample_weight(uint64_t bytes, uint64_t rate)
{
    return rate <= 1 ? 1 : 1 / chance_of_any((double)(bytes ? bytes : 1) / (double)rate);
}

#endif
