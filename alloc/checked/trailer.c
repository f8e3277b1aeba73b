/* SPDX-License-Identifier: MIT
 *
 * trailer.c: the secrets of trailer.h, drawn once for a process.
 */
#include "alloc/checked/trailer.h"

#include "vm/syscall.h"

enum { GRND_NONBLOCK_ = 1 };

struct trailer_secret trailer_secret;

/* Where the kernel has no random numbers yet, or refuses the call: the clock of the processor and
 * where the kernel has put the stack. */
static uint64_t random_odd(void)
{
    uint64_t number = 0;
    if (SYSCALL_3(SYS_getrandom, &number, sizeof number, GRND_NONBLOCK_) != sizeof number)
        number = __builtin_ia32_rdtsc() * UINT64_C(0x9E3779B97F4A7C15) ^ (uintptr_t)&number;
    return number | 1;
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
    trailer_secret.address_factor = random_odd();
    trailer_secret.factor = random_odd();
    trailer_secret.inverse = inverse_of(trailer_secret.factor);
}
