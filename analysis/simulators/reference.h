/* SPDX-License-Identifier: MIT */
/* reference.h: a batch of data references, as the simulators take them.
 *
 * Structure of arrays: all that a simulator of pages or caches needs of a reference is its
 * address and one word that says what it was. The word is the same for every execution of an
 * instruction (but for its class), so a reader prepares it once and stores it as it is.
 *
 *   what:  | class 31..24 | kind 23..16 | size 15..0 |
 *
 * The function a reference lies in and the region it touches are asked for by few and come in
 * arrays of their own, which may be NULL.
 */
#ifndef SIMULATORS_REFERENCE_H
#define SIMULATORS_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

enum reference_kind { REFERENCE_LOAD = 0, REFERENCE_STORE = 1 };

/* Whose reference it is. Values up to 255 are taken as they come. */
enum reference_class {
    REFERENCE_PROGRAM,
    REFERENCE_ALLOCATOR,
    REFERENCE_COLLECTOR_ROOTS,
    REFERENCE_COLLECTOR_MARK,
    REFERENCE_COLLECTOR_SWEEP,
};

enum { REFERENCE_CLASSES = 256 };

/* No address at or above this is a user's; the simulators use the bits for themselves. */
#define REFERENCE_ADDRESS_LIMIT (1ULL << 56)

struct references {
    size_t count;
    const uint64_t *address;  /* of the first byte, below REFERENCE_ADDRESS_LIMIT */
    const uint32_t *what;     /* reference_what() */
    const uint32_t *function; /* number of the function it lies in; NULL: not known */
    const uint8_t *region;    /* number of the region it touches; NULL: not known */
};

/* size: bytes, 1 to 65535; a size of 0 is taken as 1. */
static inline uint32_t reference_what(unsigned size, enum reference_kind kind, unsigned class)
{
    return (uint32_t)(class << 24) | (uint32_t)kind << 16 | (size & 0xffff);
}

static inline unsigned reference_size(uint32_t what)
{
    return what & 0xffff;
}

static inline unsigned reference_is_store(uint32_t what)
{
    return what >> 16 & 1;
}

static inline unsigned reference_class_of(uint32_t what)
{
    return what >> 24;
}

/* Exact totals of what a simulator was fed. */
struct reference_totals {
    uint64_t references;
    uint64_t stores;  /* of the references */
    uint64_t touches; /* units (pages or blocks) touched: a straddling reference touches several */
};

#endif
