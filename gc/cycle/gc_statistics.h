/* SPDX-License-Identifier: MIT
 *
 * gc_statistics.h: what a report tells of `gc`: collections, generations, cycles, snapshots, hidden
 * pointers, a quarantine. docs/run-formats.md explains each key.
 */
#ifndef ALLOTROPE_GC_CYCLE_GC_STATISTICS_H
#define ALLOTROPE_GC_CYCLE_GC_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/allocator.h"

/* What gc.c knows. */
struct gc_figures {
    bool quarantines, reports; /* from the start */
    bool keeps_leaks;          /* now */
    uint64_t proofs;           /* uses of suspects */
};

/* See more_statistics in struct allocator. */
void gc_statistics_visit(const struct gc_figures *figures, statistic_visitor *visit,
                         void *argument);

#endif
