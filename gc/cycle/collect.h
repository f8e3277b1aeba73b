/* SPDX-License-Identifier: MIT
 *
 * collect.h: one collection, from its cause to the figures that it leaves.
 */
#ifndef ALLOTROPE_GC_CYCLE_COLLECT_H
#define ALLOTROPE_GC_CYCLE_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gc/world/stop.h"

enum collect_cause {
    CAUSE_FULL,      /* the heap has the size at which it is due */
    CAUSE_EXHAUSTED, /* the kernel gives no more memory */
    CAUSE_LIMIT,     /* the user's limit is reached */
    CAUSE_EVERY,     /* every=N */
    CAUSE_ASKED,     /* by malloc_trim, or a test */
    COLLECT_CAUSES
};

/* Pauses by the logarithm of their microseconds: [i] counts those in [2^i, 2^(i+1)) us. */
enum { PAUSE_BUCKETS = 24 };

struct collect_statistics {
    uint64_t collections, causes[COLLECT_CAUSES];
    uint64_t given_up[STOP_FAILURES], given_up_roots, unavailable;
    uint64_t given_up_ns; /* for which the program stood, and nothing was reclaimed */
    uint64_t pauses[PAUSE_BUCKETS], pause_ns, longest_pause_ns;
    uint64_t stop_ns, longest_stop_ns, root_ns, mark_ns, sweep_ns;
    uint64_t root_bytes, root_indirect_bytes, root_mappings;
    uint64_t marked_blocks, marked_bytes, mark_overflows, most_markers;
    uint64_t freed_blocks, freed_bytes, live_bytes;
    uint64_t stopped_threads;
};

/* markers: how many may work at once. stack_bytes: see mark.h. False: the collector cannot work
 * here (no /proc, no memory), and every collection is given up. */
bool collect_init(unsigned markers, size_t stack_bytes);

/* Collects, or waits for a collection that another thread has begun. False: it was given up, and
 * nothing was reclaimed. No lock of the heap is held. wanted: bytes that did not fit. */
bool collect(enum collect_cause cause, size_t wanted);

/* False: collections are given up, now and for as long as nothing changes. */
bool collect_works(void);

/* The kernel is about to refuse the process what it tells of it. */
void collect_before_hiding(void);

/* Every collection from now on is given up: for a sandbox. */
void collect_never_again(void);

const struct collect_statistics *collect_statistics(void);

void collect_fork_child(void);

#endif
