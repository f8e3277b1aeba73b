/* SPDX-License-Identifier: MIT
 *
 * scavenge.h: the collection of the young generation, and how long its phases take.
 *
 * The phases are those of Hosking & Moss 1993, 3.2.3:
 *
 *     running     the mutator, its barriers and traps included
 *     roots       from the dirty regions or remembered slots to the values that they hold; these
 *                 and the active frame are copied
 *     promoted    copying what is reached from there
 *     other       the rest: cleaning, protecting and unprotecting, the method cache
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_RUNTIME_SCAVENGE_H
#define ALLOTROPE_BENCH_PROGRAMS_RUNTIME_SCAVENGE_H

#include "bench_programs/runtime/heap.h"
#include "bench_programs/runtime/policy.h"

enum phase { PHASE_RUNNING, PHASE_ROOTS, PHASE_PROMOTED, PHASE_OTHER, PHASES };

struct scavenges {
    uint64_t count, nanoseconds[PHASES];
    bool verify; /* the whole heap after each */
};
extern struct scavenges scavenges;

/* A place outside the heap that holds a value. */
void root_add(value *root);

/* Called at the end of each scavenge, for caches of addresses. */
void on_scavenge(void (*call)(void));

void scavenge(void);

/* A policy's bookkeeping inside another phase counts as other: what passes between these two, the
 * first of which returns the start. */
uint64_t bookkeeping_begin(void);
void bookkeeping_end(uint64_t start);

/* The measured part begins: everything that lives and is no frame becomes old, and all counters are
 * zero. It ends at the first call of measure_end: the time since the last scavenge was the
 * mutator's, and `measured` has what was counted. */
struct measured {
    uint64_t scavenges, nanoseconds[PHASES];
    uint64_t store_checks, survived_bytes, promoted_bytes, old_bytes;
    struct policy_counters counters;
};
void measure_begin(void);
struct measured measure_end(void);

/* The values outside the heap, for the verifier. */
size_t root_count(void);
value *root_at(size_t index);

#endif
