/* SPDX-License-Identifier: MIT
 *
 * seal.h: a header word that knows where it stands.
 *
 * The allocators with headers keep in the word before a block what they need to know of it. The
 * upper half of the word is a hash of its own address, so that ordinary data, a stale copy, an
 * interior or an unaligned pointer is told from a header with a chance of error of 2^-32, at the
 * cost of a multiplication and without a further memory reference.
 *
 *   | 32 bits: hash of the address | 24 bits: the heap's own | 8 bits: state |
 */
#ifndef ALLOTROPE_ALLOC_SEAL_H
#define ALLOTROPE_ALLOC_SEAL_H

#include <stdint.h>

enum header_state {
    HEADER_LIVE = 0xA7,   /* the program's */
    HEADER_CACHED = 0x3C, /* free to the program, kept by a thread cache */
    HEADER_BACK = 0x59,   /* before an over-aligned payload: tells where its block begins */
    HEADER_FREE = 0xE2,   /* for heaps that keep headers on free blocks */
};

enum { SEAL_VALUE_SHIFT = 8, SEAL_VALUE_BITS = 24 };

/* 2^64 divided by the golden ratio: Fibonacci hashing (Knuth, TAOCP vol. 3, 6.4). */
static inline uint64_t seal_of(const void *header)
{
    return ((uint64_t)(uintptr_t)header * UINT64_C(0x9E3779B97F4A7C15)) &
           UINT64_C(0xFFFFFFFF00000000);
}

static inline uint64_t sealed(const void *header, uint32_t value, enum header_state state)
{
    return seal_of(header) | (uint64_t)value << SEAL_VALUE_SHIFT | (uint64_t)state;
}

/* The word without its hash: below 2^32 only if the seal is intact. */
static inline uint64_t unsealed(const void *header, uint64_t word)
{
    return word ^ seal_of(header);
}

#endif
