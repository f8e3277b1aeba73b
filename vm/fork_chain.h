/* SPDX-License-Identifier: MIT
 *
 * fork_chain.h: the locks that fork takes. This is the one place that does.
 *
 * A module adds its lock once, when it makes ready. Fork takes the locks rank by rank, so its order
 * is that of enum lock_rank, and no allocator has to repeat it. The parent gives all of them back.
 * The child, which has one thread, first repairs what the other threads have left half done, then
 * resets all of them.
 *
 *   shim/route/process.c    fork_chain_prepare    waits for operations, takes every lock, from
 *                                                 RANK_SITES to RANK_PAGES; the heap is frozen
 *                           libc's own locks      nobody waits for us who might hold one
 *                           fork                  no thread is inside an operation of the heap
 *                           fork_chain_parent     what was deferred; the same locks, from
 *                                                 RANK_PAGES to RANK_SITES
 *                           fork_chain_child      the repair, what was deferred, the same locks
 *
 * What other threads do meanwhile, and what happens when a signal handler forks that has
 * interrupted malloc, is in freeze.h.
 *
 * Invariants
 * [added below]    A lock is added before there is a second thread, or by a thread that holds a
 *                  lock of a lower rank (for an arena's: that of the registry). Fork reads the list
 *                  of a rank only while it holds all locks of lower ranks. So a list does not
 *                  change while fork reads it.
 * [one of a rank]  Outside of fork a thread holds at most one lock of a rank. So the order within
 *                  a rank does not matter.
 */
#ifndef ALLOTROPE_VM_FORK_CHAIN_H
#define ALLOTROPE_VM_FORK_CHAIN_H

#include "vm/lock.h"

/* Adds a lock for good. A lock that is in the chain already stays where it is. Who may call this,
 * and when: [added below]. */
void fork_chain_add(struct lock *lock);

/* Whether the calling signal handler has interrupted an operation of its own thread
 * ([own operation]), or code that holds a lock of the chain. Then it must not wait for a lock: the
 * holder may wait for the interrupted thread. The thread that forks has interrupted nobody. */
bool fork_chain_is_interrupted(void);

/* In the thread that forks, before it does. */
void fork_chain_prepare(void);
/* After it, in the parent. */
void fork_chain_parent(void);
/* After it, in the child. repair: is called while the locks are still held. It may take them again.
 * It is not called when a signal handler forked that had interrupted an operation or another fork.
 * NULL: there is nothing to repair. */
void fork_chain_child(void (*repair)(void));

#endif
