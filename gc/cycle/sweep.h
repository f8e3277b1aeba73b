/* SPDX-License-Identifier: MIT
 *
 * sweep.h: frees what was not marked.
 *
 * A sweep changes bits only, a few dozen words for each slab, and touches no block: it is so short
 * that it is done while the world is stopped (figures in docs/measurements/gc.md), and the free
 * bits are exact when it runs on. What is lazy is all that costs: each thread finds out which of
 * its slabs have become available or empty when it next needs one of their class, and a large dead
 * block goes back to the kernel after the world runs again.
 */
#ifndef ALLOTROPE_GC_CYCLE_SWEEP_H
#define ALLOTROPE_GC_CYCLE_SWEEP_H

#include <stdint.h>

struct sweep_result {
    uint64_t blocks, bytes; /* freed */
    uint64_t empty_bytes;   /* in slabs without a live block */
    uint64_t live_bytes;
};

/* The world is stopped and marking is done. */
void sweep(struct sweep_result *result);

#endif
