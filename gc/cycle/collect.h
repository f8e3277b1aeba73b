/* SPDX-License-Identifier: MIT
 *
 * collect.h: the collections of `gc`, from their cause to the figures that they leave.
 */
#ifndef ALLOTROPE_GC_CYCLE_COLLECT_H
#define ALLOTROPE_GC_CYCLE_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/allocator.h"
#include "gc/cycle/sweep.h"
#include "gc/world/collection.h"
#include "vm/kernel/dirty.h"

enum collect_cause {
    CAUSE_FULL,      /* the heap has the size at which it is due */
    CAUSE_EXHAUSTED, /* the kernel gives no more memory */
    CAUSE_LIMIT,     /* the user's limit is reached */
    CAUSE_EVERY,     /* every=N */
    CAUSE_ASKED,     /* by malloc_trim, or a test */
    CAUSE_VERIFY,    /* a minor one before one that was asked for, see collect_to_verify */
    CAUSE_CYCLE,     /* the first or the last stop of a cycle before one that was asked for */
    CAUSE_LEAKS,     /* to find the leaks */
    COLLECT_CAUSES
};

/* Minor collections, or full ones. */
struct collect_kind {
    uint64_t collections, pause_ns, longest_pause_ns, cpu_ns;
    uint64_t stop_ns, root_ns, mark_ns, sweep_ns; /* phases of the pauses */
    uint64_t marked_blocks;
};

struct collect_statistics {
    struct collect_kind minor, full; /* a cycle is a full one, by its last stop */
    struct collect_kind first_stop;  /* of cycles */
    struct collect_kind leak_stop;   /* in which a snapshot was made to find the leaks */
    uint64_t promoted_bytes;
    uint64_t causes[COLLECT_CAUSES];
    uint64_t marked_blocks, marked_bytes, mark_overflows, most_markers;
    uint64_t freed_blocks, freed_bytes;
    uint64_t suspected_blocks, suspected_bytes; /* ever */
    uint64_t reclaimed_blocks;                  /* of the freed ones, not freed by the program */
    uint64_t held_blocks, held_bytes;           /* at the last collection, see sweep.h */
    uint64_t suspects, newly_suspected;         /* after the last collection, by it */
    uint64_t pointed_to;                        /* times that a suspect was found again */
    uint64_t pinned_blocks;                     /* at the last collection */
    const struct collection_statistics *driver; /* what every collector counts */
};

struct collect_options {
    unsigned markers;   /* how many may work at once */
    size_t stack_bytes; /* see mark.h */
    enum sweep_leaks leaks;
    bool generations, verify; /* see generations.h, verify.h */
    bool concurrent;          /* see concurrent.h */
    bool
        uses_snapshots; /* its cycles mark in snapshots, where there can be any: snapshot_cycle.h */
    enum dirty_provider dirty;
    bool tells_hiders; /* their blocks are told from the start by who allocates them */
    bool retires;      /* frees are ignored: what the program frees is retired */
};

/* False: the collector cannot work here (no /proc, no memory), and every collection is given up. */
bool collect_init(const struct collect_options *options);

/* From the next sweep on what the program has not freed stays. Any thread. */
void collect_keep_leaks(void);

/* Collects, or waits for a collection that another thread has begun. False: it was given up, and
 * nothing was reclaimed. No lock of the heap is held. requested: bytes that did not fit. */
bool collect(enum collect_cause cause, size_t requested);

/* A full collection that visits the leaks before it reclaims anything. One call at a time.
 * may_wait: whether the call may wait for another thread's collection. See find_leaks in struct
 * allocator. */
enum leaks_found collect_find_leaks(leak_visitor *visit, void *argument, bool may_wait);

/* Like collect_find_leaks(), but in a snapshot, while the program runs. LEAKS_BEGUN: `visit` is
 * called in a child with a copy of the memory. LEAKS_UNKNOWN: there can be no snapshot, but there
 * may be a collection. */
enum leaks_found collect_begin_leaks(leak_visitor *visit, void *argument, bool may_wait);
/* What has become of it: LEAKS_LATER while it runs. The answer is given once. */
enum leaks_found collect_leaks_begun(void);

/* Whether cycles may mark in snapshots. */
bool collect_has_snapshots(void);

/* Whether a cycle is under way. Any thread. */
bool collect_cycle_runs(void);

/* Goes on with the cycle under way: does a slice, if one is due, and the next stop, if it is time
 * for that. The last stop comes when all is marked, or the program has taken too much. No lock of
 * the heap is held, as for collect(). True: the cycle has ended, and what is dead is reclaimed. */
bool collect_some(void);
/* For tests: a slice of so much work. */
void collect_slice(size_t work);

/* For tests: a minor collection and a cycle, if there could be one next, where they are
 * verified. */
void collect_to_verify(void);

/* False: collections are given up, now and for as long as nothing changes. */
bool collect_works(void);

/* False: there are no collections, for good. */
bool collect_is_available(void);

/* Around an execve; see struct allocator. */
bool collect_before_exec(void);
void collect_after_exec(void);

/* The kernel is about to refuse the process what it tells of it. */
void collect_before_hiding(void);

/* Every collection from now on is given up: for a sandbox. False: nothing has changed. */
bool collect_never_again(void);

/* Without the lock they are hints: another thread may be counting. */
const struct collect_statistics *collect_statistics(void);

/* See struct allocator. */
void collect_counters(counter_visitor *visit);

/* Set before collect_init: called after a collection that found a pointer to a suspect. */
extern void (*collect_suspect_pointed_to)(const void *block, size_t bytes);

/* Set before collect_init. Called in a stopped world when a known hider was found and all live
 * blocks have been pinned. From then on new blocks are to be pinned by the return address of their
 * allocation. False: this cannot begin yet; the next collection asks again. */
extern bool (*collect_found_hider)(void);

void collect_fork_child(void);

#endif
