/* SPDX-License-Identifier: MIT
 *
 * trailer.c: the secrets of trailer.h, drawn once for a process.
 */
#include "alloc/checked/trailer.h"

#include "vm/random.h"

struct trailer_secret trailer_secret;

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
    trailer_secret.address_factor = random_seed() | 1;
    trailer_secret.factor = random_seed() | 1;
    trailer_secret.inverse = inverse_of(trailer_secret.factor);
}
