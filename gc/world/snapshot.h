/* SPDX-License-Identifier: MIT
 *
 * snapshot.h: a child with a copy of the process's memory, which marks while the program runs on.
 *
 * What no root reaches at one moment can never be reached again, unless the program hides pointers.
 * So the world need be stopped no longer than it takes to copy the page tables:
 *
 *     stop        what a child does not have is read (roots.h); the child is made
 *     world runs  | the child reads the roots that it has, marks, and writes what it found into
 *                 | memory that it shares with its parent
 *     ...         the parent looks, now and then, whether it is done
 *
 * After Rodriguez-Rivera & Russo, "Nonintrusive cloning garbage collection with stock operating
 * system support", SP&E 1997.
 *
 * Invariants
 * [copy alone]         The child runs `work` and nothing else, with all signals blocked but one of
 *                      its own. It is no child that wait() waits for: the signal of its end is 0.
 *                      What it shares with its parent are the report and its result, and shared
 *                      mappings, which it does not touch. It has none of the parent's descriptors,
 *                      not even for a moment (process_enter_copy).
 * [nothing lacking]    A snapshot counts only if each private page of the parent was in the child
 *                      as it was in the parent, or had been read by the parent: copied.h. Shared
 *                      mappings go on changing, so they are read by the parent, too.
 * [failed is nothing]  A snapshot that failed, of whatever cause, has changed nothing but counters.
 *                      Whoever began it does without, by a stopped world.
 * [one who reaps]      Only the thread that has taken the number out of `child`, by an atomic
 *                      exchange, waits for the child's end.
 *
 * Who calls: the holder of the collector's lock. Exceptions say so.
 *
 * What the program may notice
 *     one more process in its group
 *     a zombie for a moment, which only waitpid with __WALL or __WCLONE finds
 *     the child's processor time in RUSAGE_CHILDREN
 *     page faults, by which what it writes meanwhile is copied, also of locked pages
 */
#ifndef ALLOTROPE_GC_WORLD_SNAPSHOT_H
#define ALLOTROPE_GC_WORLD_SNAPSHOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum snapshot_state {
    SNAPSHOT_NONE,
    SNAPSHOT_RUNS,
    SNAPSHOT_DONE,
    SNAPSHOT_NO_CHILD,   /* the kernel made none */
    SNAPSHOT_UNREADABLE, /* the child could not read what it should, or had no memory */
    SNAPSHOT_LACKING,    /* [nothing lacking] */
    SNAPSHOT_DIED,
    SNAPSHOT_STATES
};

/* What the child tells. Writer: the child, until `state` is SNAPSHOT_DONE or worse. */
struct snapshot_report {
    _Atomic uint32_t state;
    uint64_t begun_ns, ended_ns, cpu_ns;
    uint64_t root_bytes;                  /* read in the stop and by the child */
    uintptr_t missing_start, missing_end; /* the bounds of what it lacks */
    bool lacks_blocks;
};

/* Zero at first. withholds: the child does without the memory of vm/withheld.h. */
struct snapshot {
    bool withholds;
    _Atomic int32_t child; /* 0: none, or reaped */
    struct snapshot_report *report;
    char *result; /* behind the report, as many bytes as were asked for */
    size_t mapped_bytes;
};

/* Counts and times of all snapshots. */
struct snapshot_statistics {
    uint64_t ended[SNAPSHOT_STATES]; /* by state. DONE: that came to their end. DIED: also those
                                        that snapshot_end has killed */
    uint64_t fork_ns, longest_fork_ns;
    uint64_t ns, cpu_ns; /* of those that are done: until their end; processor time */
    uint64_t root_bytes; /* of those that are done: read in the stop and by the child */
};
const struct snapshot_statistics *snapshot_statistics(void);

/* False: there must be none, now or later: roots.h knows of pages that would wait for the program,
 * the recorder does not know such a child, it was found that children lack blocks, or several have
 * failed one after the other. Any thread; without the lock it is a hint. */
bool snapshot_is_possible(void);

/* In the parent, before the stop: makes room for a result, and waits for the end of the last child.
 * False: without memory. */
bool snapshot_prepare(struct snapshot *snapshot, size_t result_bytes);

/* The world is stopped and roots_visit_uncopied is over. In the child calls work(argument), which
 * returns whether all went well, and does not return. In the parent returns whether there is a
 * child. */
bool snapshot_begin(struct snapshot *snapshot, bool (*work)(void *argument), void *argument);

/* Returns the snapshot's state. ask_kernel: asks the kernel whether the child has ended, reaps it
 * then, and returns SNAPSHOT_DIED if it has ended without a result. */
enum snapshot_state snapshot_look(struct snapshot *snapshot, bool ask_kernel);

/* Reaps the child if it has ended. False: there is one that has not. */
bool snapshot_is_reaped(struct snapshot *snapshot);

/* Ends the snapshot, done or not, counts it, and unmaps its result. A child that still runs is
 * killed, but not waited for. */
void snapshot_end(struct snapshot *snapshot);

/* Reaps what snapshot_end has left, if the kernel is done with it. */
void snapshot_reap(struct snapshot *snapshot);

/* Kills the child, if there is one, and waits for its end, unless somebody else waits already:
 * [one who reaps]. Any thread; a signal handler. */
void snapshot_kill(struct snapshot *snapshot);

/* In a forked child, whose sibling it is. */
void snapshot_forget(struct snapshot *snapshot);

#endif
