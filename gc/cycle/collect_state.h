/* SPDX-License-Identifier: MIT
 *
 * collect_state.h: what collect.c and collect_steps.c share, and nobody else reads: the state of
 * the collections of `gc`.
 */
#ifndef ALLOTROPE_GC_CYCLE_COLLECT_STATE_H
#define ALLOTROPE_GC_CYCLE_COLLECT_STATE_H

#include "gc/cycle/collect.h"
#include "gc/cycle/snapshot_cycle.h"
#include "gc/cycle/sweep.h"
#include "gc/mark/mark.h"
#include "gc/world/collection.h"
#include "gc/world/snapshot.h"
#include "vm/lock.h"

/* Which stop of a collection this is. NO_STOP: a cycle begins, and prepares pages first.
 * LEAK_STOP: a snapshot is made to find the leaks, and nothing is reclaimed. */
enum stop_kind { WHOLE, NO_STOP, FIRST_STOP, LAST_STOP, LEAK_STOP };

struct collect_state {
    struct lock lock; /* of all that follows, but for what is atomic */
    struct collection_driver driver;
    unsigned markers;
    bool retires, tells_hiders;
    _Atomic enum sweep_leaks leaks;
    uint64_t retired, forgotten; /* dead blocks, ever */
    _Atomic uint64_t finished;   /* collections that were not given up */
    leak_visitor *leak_visitor;  /* of CAUSE_LEAKS; and what came of it */
    void *leak_argument;
    bool leaks_are_found;
    struct snapshot leak_search;
    unsigned looks;                     /* at leak_search */
    bool in_snapshot;                   /* this is the child of a snapshot */
    bool uses_snapshots;                /* cycles mark in snapshots, where there can be any */
    bool marks_in_snapshot;             /* the one at hand does, or did */
    struct snapshot cycle_snapshot;     /* of a cycle */
    struct snapshot_cycle_result taken; /* from it */
    uint64_t snapshot_root_bytes;
    /* The collection at hand, and what it leaves to the next. */
    enum collect_cause cause;
    size_t requested;
    enum stop_kind stop_kind;
    bool minor;     /* by [marks are whole] and [doubt is full] */
    bool is_full;   /* the next is no cycle: [given up is full] */
    bool verifying; /* the second marking, a full one */
    uint64_t rescanned_bytes, rescanned_before;
    bool is_unswept;    /* the last collection has left its sweep: [swept before stop] */
    size_t next_swept;  /* blocks_sweep_some */
    uint64_t old_bytes; /* live after the last full collection, or promoted since */
    struct mark_result marked;
    struct sweep_result swept;
    struct collect_statistics statistics;
};

extern struct collect_state collect_state;

/* Whether the stop at hand ends a cycle that has marked in a snapshot: nothing is left to mark. */
static inline bool ends_snapshot_cycle(void)
{
    return collect_state.stop_kind == LAST_STOP && collect_state.marks_in_snapshot;
}

/* What the driver asks of these collections. */
extern const struct collector collect_steps;

/* Whatever the cycle has marked is cleared by the next collection: [given up is full]. (Before its
 * first stop it has marked nothing.) */
void collect_give_up_cycle(void);

/* [swept before stop] Ends a late sweep, if there is one. */
void collect_end_sweep(void);
/* All slabs are swept. */
void collect_count_late_sweep(void);

#endif
