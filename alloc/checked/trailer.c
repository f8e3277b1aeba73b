/* SPDX-License-Identifier: MIT
 *
 * trailer.c: the secrets of trailer.h, drawn once for a process.
 */
#include "alloc/checked/trailer.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

struct trailer_secret trailer_secret;

/* From the sixteen bytes that the kernel gives each process, so without a call that a sandbox may
 * end it for. libc makes its canary of them, hence the mixing (Stafford's variant 13 of
 * splitmix64's finaliser). */
static uint64_t random_odd(unsigned which)
{
    const char *given = (const char *)getauxval(AT_RANDOM);
    uint64_t words[2] = {__builtin_ia32_rdtsc(), (uintptr_t)&words};
    if (given)
        memcpy(words, given, sizeof words);
    uint64_t mixed = words[which] + UINT64_C(0x9E3779B97F4A7C15) * (which + 1);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94D049BB133111EB);
    return (mixed ^ mixed >> 31) | 1;
}

/* Newton's iteration: each step doubles the bits that are right, of which an odd number's inverse
 * has three at first. */
static uint64_t inverse_of(uint64_t odd)
{
    uint64_t inverse = odd;
    for (int right = 3; right < 64; right *= 2)
        inverse *= 2 - odd * inverse;
    return inverse;
}

void trailer_init(void)
{
    trailer_secret.address_factor = random_odd(0);
    trailer_secret.factor = random_odd(1);
    trailer_secret.inverse = inverse_of(trailer_secret.factor);
}
