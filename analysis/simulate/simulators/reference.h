/* SPDX-License-Identifier: MIT
 *
 * reference.h: a batch of data references, as the simulators take them.
 *
 * Sixteen bytes, laid out as the trace reader's own references, so that its batches are simulated
 * where they lie. What a simulator asks of a reference besides its address is in one aligned
 * word, the size lowest, then kind and class.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_REFERENCE_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

enum { REFERENCE_LOAD = 0, REFERENCE_STORE = 1, REFERENCE_CLASSES = 256, REFERENCE_REGIONS = 8 };

struct reference {
    uint64_t address;  /* of the first byte, below REFERENCE_ADDRESS_LIMIT */
    uint32_t function; /* number of the function it lies in */
    uint16_t size;     /* bytes; 0 is taken as 1 */
    uint8_t kind;      /* REFERENCE_LOAD or REFERENCE_STORE */
    uint8_t class;     /* whose it is: a number for which counts are kept apart */
} __attribute__((may_alias));
_Static_assert(sizeof(struct reference) == 16, "no padding");

/* No address at or above this is a user's; the simulators use the bits for themselves. */
#define REFERENCE_ADDRESS_LIMIT (1ULL << 56)

struct references {
    size_t count;
    const struct reference *reference;
    const uint8_t *region;  /* [count], of each, below REFERENCE_REGIONS; NULL: not known */
    const uint32_t *window; /* [count], the window of time of each; NULL: not asked for */
};

/* Exact totals of what a simulator was fed. */
struct reference_totals {
    uint64_t references;
    uint64_t stores;  /* of the references */
    uint64_t touches; /* units (pages or blocks) touched: a straddling reference touches several */
};

#endif
