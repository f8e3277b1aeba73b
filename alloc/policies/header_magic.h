/* SPDX-License-Identifier: MIT
 *
 * header_magic.h: a header word that knows where it stands, by a magic number made of its address.
 *
 * The allocators with headers keep in the word before a block what they need to know of it. The
 * upper half of the word, its magic, is the lower half of its own address, so that ordinary data, a
 * stale copy, an interior or an unaligned pointer is told from a header, at the cost of one shift
 * and without a further memory reference. It guards against mistakes, not against forgery.
 *
 *   | 32 bits: magic | 24 bits: the heap's own | 8 bits: state |
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_HEADER_MAGIC_H
#define ALLOTROPE_ALLOC_POLICIES_HEADER_MAGIC_H

#include <stdint.h>

enum header_state {
    HEADER_LIVE = 0xA7, /* the program's */
    HEADER_BACK = 0x59, /* before an over-aligned payload: tells where its block begins */
    HEADER_FAR = 0x3C,  /* the same, farther than a value can tell: tells where the rest stands */
    HEADER_REST = 0x96, /* the rest of the way, from there */
    HEADER_FREE = 0xE2, /* for heaps that keep headers on free blocks */
};

enum { HEADER_VALUE_SHIFT = 8, HEADER_VALUE_BITS = 24 };

static inline uint64_t header_magic(const void *header)
{
    return (uint64_t)(uintptr_t)header << 32;
}

static inline uint64_t header_word(const void *header, uint32_t value, enum header_state state)
{
    return header_magic(header) | (uint64_t)value << HEADER_VALUE_SHIFT | (uint64_t)state;
}

/* The word without its magic: below 2^32 only if that is intact. */
static inline uint64_t header_read(const void *header, uint64_t word)
{
    return word ^ header_magic(header);
}

#endif
