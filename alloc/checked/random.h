/* SPDX-License-Identifier: MIT
 *
 * random.h: numbers that nobody outside the process can foresee.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_RANDOM_H
#define ALLOTROPE_ALLOC_CHECKED_RANDOM_H

#include <stdint.h>

/* Stafford's variant 13 of splitmix64's finaliser. */
static inline uint64_t mix_bits(uint64_t number)
{
    number = (number ^ number >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    number = (number ^ number >> 27) * UINT64_C(0x94D049BB133111EB);
    return number ^ number >> 31;
}

/* The same in each call of a process. which: 0 or 1. */
uint64_t random_start(unsigned which);

#endif
