/* SPDX-License-Identifier: MIT
 *
 * late_sweep.h: a sweep that leaves the stopped world: slabs are swept when they are next used.
 *
 * A collector whose last stop is to be short ends it with blocks_begin_late_sweep. From then on
 * the dead blocks of a slab are those without a mark. Nothing else tells: they look live. The world
 * runs, and the slabs are swept one by one:
 *
 *     slab                          swept
 *     current; with blocks in a     in the stop
 *       local free list
 *     large                         by blocks_swept_late, after the stop
 *     of a thread's bin             by its owning thread, some at each refill (find_available_
 *                                   after_sweep, visit_some_after_sweep), at the latest when the
 *                                   slab becomes current
 *     abandoned                     by who abandons or rebins it
 *     any other                     by blocks_sweep_rest, before the next collection. Of another
 *                                   thread's slab the dead become remote frees.
 *
 * Each late sweep has a number, and a slab has the number of the last one that swept it. So a late
 * sweep begins without a look at the slabs.
 *
 * The child of a fork has marks and numbers, and goes on. It sweeps the slabs of threads that it
 * does not have when it first rebins abandoned slabs.
 *
 * A sweep may be late only where frees are ignored: nobody has the address of a dead block, so
 * nobody frees it. (A program that hides pointers may: sweep_before_free.)
 *
 * With generations (gc/cycle/generations.h) a sweep also makes the survivors old. A late one does
 * that slab by slab, so for a time some rows of old blocks are those of the last collection:
 *
 *     when                  what is done                              `old` of a slab
 *     last stop of a cycle  the list of young slabs begins anew       of the last collection
 *                           the slabs that threads have at hand are   new in these slabs
 *                           swept, and entered in the list
 *                           pages are protected, by live & mark       not asked
 *     the world runs        a slab is swept before it is used. What   new from its sweep on: live
 *                           is born after that is not old             & mark
 *     the next collection,  blocks_sweep_rest. Now it is known what   new in all slabs
 *     before it stops the   was promoted, and so whether minor
 *     world                 collections cease
 *     its stop              marks are cleared: all of them in a full  right in all slabs
 *                           collection; in a minor one those of
 *                           young slabs' blocks that are not old
 *
 * Invariants. Each has a test that fails without it (tests/gc/cycle/test_late_sweep.c).
 *
 * [locked sweep]        Who sweeps a slab holds the heap's lock. So no two sweep it, no stop and no
 *                       fork comes in between, and nobody sweeps while marks are cleared or set.
 * [listed is marked]    At the stop every block that is not live has its mark: those that are free,
 *                       those of local free lists (their free bits are set then), and those that
 *                       other threads have freed. So none of them is taken for dead: not when it
 *                       is handed out from a list, and not while its owning thread takes it from
 *                       the remote frees, when for a moment it may look live to another thread
 *                       that sweeps. That thread may make it old then, although it is free. This
 *                       does no harm: what the program writes into it when it has it is on a dirty
 *                       page, so minor collections follow it. At worst it is kept until the next
 *                       full collection.
 * [swept before use]    A slab is swept before a block of it is taken by its word of free bits. So
 *                       what has a mark in the sweep has survived, and becomes old; what is born
 *                       later does not. `bin->current` is set first, then the slab is swept. A
 *                       thread that is stopped in between has its slab swept in the stop.
 * [swept before stop]   All slabs are swept before a stop that clears marks or makes a child: in
 *                       slices of the cycle, if it begins with slices, and the rest before the
 *                       stop.
 * [retired is atomic]   A late sweep clears retired bits by a locked instruction, before it sets
 *                       the free bits. The program sets others of the word meanwhile, by a locked
 *                       instruction where it has threads, as glibc counts them. So no retired bit
 *                       comes back on a block that is handed out again, and none is lost. (A
 *                       program that hides a pointer may free the dead block under free=ignore just
 *                       as it is swept: the next block there is retired. A task
 *                       that `clone` makes without libc is not counted. It has its maker's
 *                       thread-local storage, and so its thread heap: it cannot use the heap beside
 *                       its maker in any case.) A sweep in the stopped world needs no locked
 *                       instruction: what a stopped thread does to the word is one instruction,
 *                       which it has made or not.
 *
 * Source: the model of the cycle, tests/gc/model/cycle.pml.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_LATE_SWEEP_H
#define ALLOTROPE_ALLOC_BLOCKS_LATE_SWEEP_H

#include "alloc/blocks/heap.h"

/* Whether a late sweep has left the slab. The owning thread's answer stays right until the next
 * stop; another's may be late. */
static inline bool is_unswept(const struct slab *slab)
{
    return atomic_load_explicit(&slab->swept, memory_order_acquire) !=
           atomic_load_explicit(&blocks_heap.late_sweep, memory_order_relaxed);
}

static inline void say_swept(struct slab *slab)
{
    uint32_t number = atomic_load_explicit(&blocks_heap.late_sweep, memory_order_relaxed);
    atomic_store_explicit(&slab->swept, number, memory_order_release);
}

/* Whether the last sweep was a late one: there may be slabs to visit. */
static inline bool sweep_was_late(void)
{
    return atomic_load_explicit(&blocks_heap.sweep_was_late, memory_order_relaxed);
}

/* With the lock held. A large block is left alone. */
void sweep_with_lock(struct slab *slab, enum sweeper sweeper);
/* Sweeps a large block, as its owning thread would (SWEEPER_OWNER). With the lock held. */
void sweep_large_late(struct slab *slab);

void sweep_now(struct slab *slab, enum sweeper sweeper) __attribute__((noinline, cold));

/* For the owning thread. */
static inline void sweep_before_use(struct slab *slab)
{
    if (is_unswept(slab))
        sweep_now(slab, SWEEPER_OWNER);
}

/* For any thread, before a free that counts, or a resize: a program that hides pointers may have
 * the address of a dead block, which would be freed twice. */
static inline void sweep_before_free(struct slab *slab)
{
    if (is_unswept(slab))
        sweep_now(slab, thread_heap_of(slab) == thread_heap ? SWEEPER_OWNER : SWEEPER_OTHER);
}

#endif
