/* SPDX-License-Identifier: MIT
 *
 * late_sweep.c: see late_sweep.h.
 */
#include "alloc/blocks/late_sweep.h"

#include "alloc/blocks/remote.h"
#include "alloc/blocks/young.h"
#include "vm/freeze.h"

static void sweep(struct slab *slab, enum sweeper sweeper)
{
    if (!is_unswept(slab))
        return;
    blocks_heap.collector->sweep_late(slab, sweeper);
    say_swept(slab);
    if (sweeper == SWEEPER_OTHER)
        offer_to_owner(slab);
}

/* A large block that is not on a list yet (large.c, while the heap is frozen) was not there in the
 * stop: its mark says nothing. */
void sweep_with_lock(struct slab *slab, enum sweeper sweeper)
{
    if (!slab_is_large(slab))
        sweep(slab, sweeper);
}

void sweep_large_late(struct slab *slab)
{
    sweep(slab, SWEEPER_OWNER);
}

/* [locked sweep]. While the heap is frozen the slab stays as it is, and a free puts a block of it
 * into a list or sets its remote bit. Such a block was live at the stop and has its mark, so the
 * sweep does not take it for dead. (A program that hides its only pointer to a dead block, and
 * frees it just then, has it freed twice.) */
void sweep_now(struct slab *slab, enum sweeper sweeper)
{
    if (!lock_enter(&blocks_heap.lock)) {
        frozen_end();
        return;
    }
    sweep_with_lock(slab, sweeper);
    lock_release(&blocks_heap.lock);
}

static void sweep_threads_slab(struct slab *slab)
{
    sweep_with_lock(slab, SWEEPER_STOPPED);
}

void blocks_begin_late_sweep(void)
{
    atomic_fetch_add_explicit(&blocks_heap.late_sweep, 1, memory_order_relaxed);
    each_threads_slab(sweep_threads_slab);
}

static void sweep_rest_of(void *unused, struct slab *slab)
{
    (void)unused;
    const struct thread_heap *heap = thread_heap_of(slab);
    bool owns = !heap || heap == thread_heap;
    sweep_with_lock(slab, owns ? SWEEPER_OWNER : SWEEPER_OTHER);
}

void blocks_sweep_rest(void)
{
    blocks_each_slab(sweep_rest_of, NULL);
}

bool blocks_sweep_some(size_t *next, size_t most)
{
    return blocks_some_slabs(next, most, sweep_rest_of, NULL);
}
