/* SPDX-License-Identifier: MIT
 *
 * young.c: the slabs that may have young blocks.
 *
 * A minor collection looks at the records of young slabs alone, so that its time does not depend on
 * the size of the heap. A slab is young from the moment when blocks may be taken from it until the
 * next collection:
 *
 *     a thread makes it current; a large block is made        enter_young
 *     a collection has ended, and the slab is still current,
 *       has blocks in local free lists, or is to be looked
 *       at again (gc/cycle/sweep.c)                           blocks_enter_threads_slabs
 *
 * The list is linked through next_young, the newest first. Threads only push; the collector takes
 * all of it in a stopped world. `young` and next_young outlive the use of a record, as those of a
 * remote free queue do: a record on the list may be unused, or another slab's by now.
 *
 * Invariants. Each is what keeps a young block from being taken for an old one, whose mark stays:
 * nobody would follow it, and what it points to would be lost.
 *
 * [current is young]    A slab from which a thread takes blocks by its word of free bits is young.
 *                       So `bin->current` is set first, then the slab is entered, and then a block
 *                       is taken. A thread that is stopped before the entry enters when it goes
 *                       on; one that is stopped behind it has the slab entered again by the
 *                       collection, which finds it current.
 * [listed is young]     A slab is young that has a block in a local free list when a collection
 *                       ends: the block is not old, and is taken without a look at the slab. A
 *                       block that gets into a list later was the program's before. If it was old
 *                       it stays so, and what is written to it is on a dirty page. If it was not,
 *                       its slab is young: by [unmarked is young] (gc/cycle/generations.h), or
 *                       because the block was handed out since.
 * [young is listed]     `young` is set just if the slab is on the list, or is about to be pushed
 *                       by the thread that has set it. That thread counts itself in
 *                       entering_young, from before it sets `young` until after the push. Another
 *                       thread that finds `young` set goes on, and may take blocks of a slab that
 *                       is not on the list yet. So a collection that finds the count above zero is
 *                       no minor one. A thread that leaves in between, by a longjmp out of a
 *                       signal handler, leaves the count: no collection is a minor one then.
 */
#include "alloc/blocks/young.h"

#include "alloc/blocks/lookup.h"
#include "alloc/blocks/records.h"
#include "alloc/blocks/remote.h"

/* True also with a quarantine, which uses the row for its age bits. Its list of young slabs is made
 * and never read. */
static bool has_generations(void)
{
    return blocks_heap.rows >= SLAB_OLD_ROWS;
}

static void push_young(struct slab *slab)
{
    struct slab *newest = atomic_load_explicit(&blocks_heap.young, memory_order_relaxed);
    do
        atomic_store_explicit(&slab->next_young, newest, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&blocks_heap.young, &newest, slab,
                                                  memory_order_release, memory_order_relaxed));
}

/* Those of a fork are on a list of their own, which every collection goes through: their records go
 * with them. */
void enter_young(struct slab *slab)
{
    if (!has_generations() || slab->is_of_fork ||
        atomic_load_explicit(&slab->young, memory_order_relaxed))
        return;
    bool was_pushing = is_pushing;
    is_pushing = true;
    atomic_fetch_add(&blocks_heap.entering_young, 1); /* [young is listed] */
    if (!atomic_exchange(&slab->young, true))
        push_young(slab);
    atomic_fetch_sub(&blocks_heap.entering_young, 1);
    is_pushing = was_pushing;
}

bool blocks_young_are_listed(void)
{
    return atomic_load(&blocks_heap.entering_young) == 0;
}

void blocks_enter_young(struct slab *slab)
{
    enter_young(slab);
}

static struct slab *next_young(struct slab *slab)
{
    return atomic_load_explicit(&slab->next_young, memory_order_relaxed);
}

void blocks_each_of_fork(void (*visit)(void *argument, struct slab *slab), void *argument)
{
    for (struct slab *slab = blocks_heap.fork_slabs, *next; slab; slab = next) {
        next = slab->next; /* the visitor may free the block, and the record with it */
        visit(argument, slab);
    }
}

void blocks_each_young(void (*visit)(void *argument, struct slab *slab), void *argument)
{
    struct slab *slab = atomic_load_explicit(&blocks_heap.young, memory_order_acquire);
    for (; slab; slab = next_young(slab))
        if (slab->capacity > 0)
            visit(argument, slab);
    blocks_each_of_fork(visit, argument);
}

void blocks_take_young(void (*visit)(void *argument, struct slab *slab), void *argument)
{
    struct slab *slab = atomic_exchange_explicit(&blocks_heap.young, NULL, memory_order_acquire);
    for (struct slab *next; slab; slab = next) {
        next = next_young(slab);
        atomic_store_explicit(&slab->young, false, memory_order_relaxed);
        if (visit && slab->capacity > 0)
            visit(argument, slab);
    }
    if (visit)
        blocks_each_of_fork(visit, argument);
}

typedef void slab_function(struct slab *slab);

/* A thread heap without a thread has no current slab. In the child of a fork one may still name a
 * slab that it had. A visit to that does no harm: at most a late sweep counts the memory of an
 * unused record as empty, once. */
static void visit_slabs_of(void *argument, struct thread_heap *heap)
{
    slab_function *visit = *(slab_function **)argument;
    for (size_t i = 0; i < SIZE_CLASSES; i++) {
        const struct bin *bin = &heap->bins[i];
        if (bin->current)
            visit(bin->current);
        for (void *block = heap->alive ? bin->local_free : NULL; block; block = *(void **)block)
            visit(slab_at(block));
    }
}

void each_threads_slab(void (*visit)(struct slab *slab))
{
    each_thread_heap(visit_slabs_of, &visit);
}

void blocks_enter_threads_slabs(void)
{
    each_threads_slab(enter_young);
}

/* As a remote free does: [queue is a hint]. The world is stopped, or the heap's lock is held. */
void blocks_offer(struct slab *slab)
{
    if (!slab_is_large(slab) && slab->state != SLAB_CURRENT)
        offer_to_owner(slab);
}

static void forget(void *unused, struct slab *slab)
{
    (void)unused;
    atomic_store_explicit(&slab->young, false, memory_order_relaxed);
}

/* A thread that the child does not have may have set `young` and not pushed: [young is listed]. */
void forget_young(void)
{
    if (!has_generations())
        return;
    atomic_store_explicit(&blocks_heap.young, NULL, memory_order_relaxed);
    atomic_store_explicit(&blocks_heap.entering_young, 0, memory_order_relaxed);
    each_slab_record(forget, NULL);
}
