/* SPDX-License-Identifier: MIT
 *
 * collection.h: the driver of a collection. It does what is the same for every collector: it stops
 * the world, finds the roots, lets the world go on, and keeps the account. What differs, marking
 * and sweeping, is a struct collector.
 *
 *     collector's lock, heap's lock     by the caller: no thread that is stopped holds them
 *     lock of the roots                 of those that the program has asked for
 *     block all signals                 no handler runs in a stopped world
 *     change to a stack of our own      the program's may have only a few kilobytes left
 *     prepare                           what need not be done in the pause
 *     stop every other thread           stop.c                }
 *     begin                             clears the marks      }
 *     visit the roots                   roots.c               } the pause
 *     mark                              the transitive closure}
 *     again                             a verifier: from      }
 *                                       `begin` once more     }
 *     sweep                             frees what has no mark}
 *     resume the threads                stop.c                }
 *     finish                            what need not be done in the pause
 *
 * Whatever goes wrong before the sweep, nothing is reclaimed: the collection is given up, the heap
 * grows instead, and the account says so.
 *
 * A thread may be stopped between any two instructions of the program, of malloc and free, and in
 * a system call. What it leaves in the heap of `blocks`, alloc/blocks/heap.h says.
 *
 * Invariants
 * [no heap lock stopped]  The caller holds the lock of the heap from before the stop until after
 *                         `finish`. So no stopped thread holds it, and between begin and sweep the
 *                         heap is as a thread without the lock may leave it. For `blocks` that is
 *                         [no stopped holder] (alloc/blocks/heap.h).
 * [no lock while stopped] Between the stop and the resumption no lock is taken that a stopped
 *                         thread may hold, of ours or of libc's. (The markers' pool_lock is theirs
 *                         alone; helpers of the last collection have ended: mark_prepare.) Memory
 *                         comes from mappings that need none (vm/private_memory.h). Who must know
 *                         of a lock looks whether it is held, and does not wait
 *                         (shim/route/route.c, needs_sites). The library is linked with -z now, so
 *                         that memcpy and its like do not enter ld.so.
 * [one collection]        The caller holds a lock that no two collections hold at once: everything
 *                         here that is not atomic belongs to the holder. Fork takes these
 *                         locks (vm/fork_chain.h), so it waits for the end of a collection, and
 *                         none is under way in the child. (A cycle may be between its stops:
 *                         [given up is full], gc/cycle/concurrent.h. So may a late sweep, which
 *                         the child goes on with: alloc/blocks/late_sweep.h.)
 */
#ifndef ALLOTROPE_GC_WORLD_COLLECTION_H
#define ALLOTROPE_GC_WORLD_COLLECTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/allocator.h"
#include "gc/world/roots.h"
#include "gc/world/snapshot.h"
#include "gc/world/stop.h"
#include "gc/world/utilisation.h"

/* Pauses by the logarithm of their microseconds: bucket i counts those in [2^i, 2^(i+1)) us. */
enum { PAUSE_BUCKETS = 24 };

struct collection_statistics {
    uint64_t collections;                             /* that were not given up */
    uint64_t given_up[STOP_FAILURES], given_up_roots; /* by reason */
    _Atomic uint64_t unavailable;                     /* the same; no thread was stopped */
    uint64_t given_up_ns; /* for which the program stood, and nothing was reclaimed */
    uint64_t pauses[PAUSE_BUCKETS], pause_ns, longest_pause_ns;
    struct utilisation *utilisation; /* of all stops, also those given up; NULL: there are none */
    uint64_t cpu_ns;                 /* of the pauses: what the whole process ran */
    uint64_t stop_ns, longest_stop_ns, root_ns, mark_ns, sweep_ns;
    uint64_t root_bytes, root_indirect_bytes, root_mappings;
    uint64_t live_bytes; /* after the last collection */
    uint64_t stopped_threads;
};

/* One collection, when it is over. */
struct collection {
    bool reclaimed;            /* false: it was given up, and the rest means nothing */
    bool first_stop;           /* of a cycle: nothing was reclaimed, and another stop follows */
    struct snapshot *snapshot; /* that this stop makes; NULL: it marks by itself */
    bool is_marked;            /* before this stop: it visits no roots */
    uint64_t pause_ns;         /* from the stop to the resumption */
    uint64_t cpu_ns;           /* of it, what the whole process ran */
    uint64_t stop_ns, root_ns, mark_ns, sweep_ns; /* its phases */
    uint64_t ran_ns;          /* that the program ran since the last collection */
    struct root_result roots; /* what was visited */
};

struct collector {
    /* The world runs, and the driver's own stack is in use. On the program's stack the addresses of
     * blocks that this call meets would stay behind, below the frames that are roots, or in holes
     * of them. May be NULL. */
    void (*prepare)(void);
    /* The world is stopped: clears all marks, and says who visits the roots. */
    void (*begin)(struct root_visitor *visitor);
    /* Every root has been visited: marks what can be reached from them. */
    void (*mark)(void);
    /* Marking is done. True: the roots are to be visited again, from `begin` on. May be NULL. */
    bool (*again)(void);
    /* Frees what has no mark. Returns how many bytes are live. */
    uint64_t (*sweep)(void);
    /* In the child of a snapshot. begin_in_snapshot: before the child visits the roots that it has.
     * mark_in_snapshot: after that; marks, and writes into the snapshot's result what the parent is
     * to know. False: it failed. NULL: this collector makes no snapshots. */
    bool (*begin_in_snapshot)(void);
    bool (*mark_in_snapshot)(struct snapshot *snapshot);
    /* Instead of mark and sweep, when the roots could not be read: undoes `begin`. May be NULL. */
    void (*abandon)(void);
    /* The world runs again, or was never stopped. May be NULL. */
    void (*finish)(const struct collection *collection);
};

/* The state of a collector's driver: zero, then collection_init. Its counters may look like
 * pointers, so it belongs where no root is looked for, or where a false root does no harm. */
struct collection_driver {
    const struct collector *collector;
    _Atomic bool available;
    _Atomic unsigned execs;    /* calls of execve under way */
    _Atomic bool running;      /* a stop is; all signals are blocked in its thread then */
    _Atomic unsigned failures; /* since the last collection that was not given up */
    char *stack;
    bool has_protection_keys; /* of pages; the kernel has enabled them */
    uint64_t ended_ns;        /* when the last collection was over */
    struct collection current;
    struct collection_statistics statistics;
};

/* Names of the reasons for which a collection was given up, as reports have them. */
extern const char *const collection_failures[STOP_FAILURES];

/* Visits what `allotrope stats PID` shows of the collections. */
void collection_counters(const struct collection_driver *driver, counter_visitor *visit);

/* False: there can be no collections here (no /proc, no memory), now or later. */
bool collection_init(struct collection_driver *driver, const struct collector *collector);

/* Before each collection. False: it cannot be run (in a vfork child, during an execve), which is
 * counted. */
bool collection_is_possible(struct collection_driver *driver);

/* Whether there is none now, but may be one later in this memory: during an execve, which may fail,
 * and in a vfork child, whose parent goes on with the memory. */
bool collection_is_put_off(const struct collection_driver *driver);

/* Around an execve of the calling thread; see struct allocator. A thread that is in execve no
 * longer runs the handler of a stop, and the signal would stay and kill the program that comes. So
 * no collection is under way when before_exec returns, and none begins before after_exec.
 *
 * Invariant
 * [running then execs]: each side writes its own word (`running`, `execs`), then reads the
 * other's. A collection that finds an execve is given up; an execve waits while a stop runs. That
 * stop has its locks already and takes none, so it needs nothing of the thread that waits: this may
 * be a signal handler that has interrupted the holder of any lock.
 *
 * True: collections are held off until collection_after_exec. False: nothing was done, in a vfork
 * child or where there are no collections. */
bool collection_before_exec(struct collection_driver *driver);
void collection_after_exec(struct collection_driver *driver);

/* False: no collection can make room for so many bytes with this alignment (in bytes), since the
 * kernel would refuse them even if the heap gave back all of its memory. Any thread, without a
 * lock. */
bool collection_may_make_room(size_t alignment, size_t bytes);

/* Like collection_is_possible(), but without counting. It is asked while the program runs. */
bool collection_is_allowed(const struct collection_driver *driver);

/* Collects. False: it was given up, and nothing was reclaimed. */
bool collection_run(struct collection_driver *driver);

/* The first stop of a cycle: a collection up to its roots, which reclaims nothing. The collector's
 * `mark` and `sweep` know. False: as collection_run. */
bool collection_run_first_stop(struct collection_driver *driver);

/* Like collection_run_first_stop(), but also makes a snapshot, which was prepared. True: nothing
 * was given up, and snapshot_look tells whether there is a child. */
bool collection_run_snapshot(struct collection_driver *driver, struct snapshot *snapshot);

/* A collection whose marks were made before: `begin`, `mark` and `sweep`, without any roots. */
bool collection_run_marked(struct collection_driver *driver);

/* Calls `work` as a collection works, with all signals blocked and on a stack of the driver's, but
 * beside the program. */
void collection_run_slice(struct collection_driver *driver, void (*work)(size_t amount),
                          size_t amount);

/* False: so many collections were given up one after the other that it is no accident, or there are
 * none any more, or none here: in a child of a fork by number. Any thread. */
bool collection_works(const struct collection_driver *driver);

/* False: there are none, and there will be none; or this is a child by number. Any thread. */
bool collection_is_available(const struct collection_driver *driver);

/* False: there are none, or this is a child by number, or of vfork. Any thread, no lock. */
bool collection_is_of_this_process(const struct collection_driver *driver);

/* From now on there are none: for a sandbox. [running then execs] holds with `available` as with
 * `execs`, so no lock is needed. False: nothing has changed, because there were none, or because it
 * is a vfork child that enters one. */
bool collection_never_again(struct collection_driver *driver);

/* The kernel is about to refuse the process what it tells of it. */
void collection_before_hiding(const struct collection_driver *driver);

/* In the child of a fork. */
void collection_forked(struct collection_driver *driver);

#endif
