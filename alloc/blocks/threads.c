/* SPDX-License-Identifier: MIT
 *
 * threads.c: thread heaps, from a thread's first need to its exit, and what a fork leaves of them.
 *
 *     first need   a record, used before if there is one, and empty bins
 *     exit         the local free lists go to their slabs; empty slabs go back, the others are
 *                  abandoned: they lie in lists of blocks_heap, by size class. The bins that the
 *                  thread has used are made empty, for the next
 *     adoption     a thread that needs blocks takes an abandoned slab before it asks for a new one
 *     fork         the child has one thread; the slabs of the others are abandoned
 *
 * A thread that allocates after its exit, or that no record can be had for, takes blocks from the
 * common heap, under a lock; its frees are remote ones.
 *
 * Abandoned slabs have a remote free queue of their own. Whoever holds the lock rebins what is in
 * it: [owning thread writes], heap.h. The queue of a thread that has ended is closed, so adoption
 * does not look into it.
 */
#include "alloc/blocks/threads.h"

#include <string.h>

#include "alloc/blocks/late_sweep.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/records.h"
#include "alloc/blocks/remote.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/surplus.h"
#include "alloc/blocks/young.h"
#include "vm/deferred.h"
#include "vm/freeze.h"
#include "vm/metadata.h"

/* How many blocks of a size a local free list may have, and how many bytes. */
enum { LOCAL_FREE_BLOCKS = 256, LOCAL_FREE_BYTES = 65536 };

/* First need. */

/* None if a collector must see every allocation. */
int32_t local_free_limit(size_t block_bytes)
{
    const struct blocks_collector *collector = blocks_heap.collector;
    size_t limit = LOCAL_FREE_BYTES / block_bytes;
    return collector && collector->before_allocation ? 0
           : limit < LOCAL_FREE_BLOCKS               ? (int32_t)limit
                                                     : LOCAL_FREE_BLOCKS;
}

_Static_assert(SIZE_CLASSES <= 64, "a bit each in used_bins");

/* An empty bin. That its slabs were rebinned after no sweep does no harm: it has none. */
static void start_bin(struct bin *bin, size_t block_bytes)
{
    *bin =
        (struct bin){.block_bytes = block_bytes, .local_free_room = local_free_limit(block_bytes)};
}

/* A heap that a thread has given up is ready for the next: start and exit cost what the thread has
 * used. Not ready: a new one, and in the child of a fork those of the threads that it does not
 * have. */
static void start_bins(struct thread_heap *heap)
{
    if (heap->is_ready)
        return;
    memset(heap->unvisited, 0, sizeof heap->unvisited);
    for (size_t i = 0; i < SIZE_CLASSES; i++)
        start_bin(&heap->bins[i], size_class_bytes[i]);
    heap->used_bins = 0;
    heap->idle_classes = 0;
    heap->round_began_ns = 0;
    heap->is_ready = true;
}

static struct thread_heap *take_thread_heap(bool *first)
{
    if (!lock_enter(&blocks_heap.lock)) {
        frozen_end();
        return NULL;
    }
    struct thread_heap *heap = blocks_heap.unused_thread_heaps;
    if (heap)
        blocks_heap.unused_thread_heaps = heap->next;
    else
        heap = new_thread_heap_record();
    if (heap) {
        start_bins(heap);
        open_remote_queue(heap);
        heap->alive = true;
        thread_heap = heap; /* with the lock: a handler that forks now repairs nothing */
        *first = blocks_heap.threads++ == 0;
    }
    lock_release(&blocks_heap.lock);
    return heap;
}

bool start_thread(void)
{
    if (thread_heap == &exited_heap)
        return false;
    if (!fast_table_covers(0))
        allocator_first_use();
    bool first = false;
    struct thread_heap *heap = take_thread_heap(&first);
    if (!heap)
        return false;
    if (!first && allocator_thread_started)
        allocator_thread_started();
    return true;
}

struct thread_heap *common_heap(void)
{
    if (blocks_heap.common_heap)
        return blocks_heap.common_heap;
    lock_acquire(&blocks_heap.lock);
    struct thread_heap *heap = new_thread_heap_record();
    if (heap)
        start_bins(heap);
    lock_release(&blocks_heap.lock);
    return blocks_heap.common_heap = heap;
}

/* Abandoned slabs. With the lock held. */

/* Sweeps the slab and takes its remote frees. */
static enum free_blocks take_in(struct slab *slab)
{
    sweep_with_lock(slab, SWEEPER_OWNER);
    take_remote_frees(slab);
    return free_blocks_of(slab);
}

/* A slab that is on no list and has been taken in. */
static void abandon_with(struct slab *slab, enum free_blocks free)
{
    if (free == ALL_FREE) {
        release_slab(slab);
        return;
    }
    struct abandoned_bin *bin = &blocks_heap.abandoned[slab->class_index];
    set_thread_heap(slab, NULL);
    slab->state = free == SOME_FREE ? SLAB_ABANDONED : SLAB_ABANDONED_FULL;
    push_slab(free == SOME_FREE ? &bin->available : &bin->full, slab);
}

static void abandon(struct slab *slab)
{
    abandon_with(slab, take_in(slab));
}

static void abandon_all(struct slab **list)
{
    struct slab *slab = *list;
    *list = NULL;
    while (slab) {
        struct slab *next = slab->next;
        abandon(slab);
        slab = next;
    }
}

/* A slab that is abandoned already. It comes to the front of its list, though it may have had free
 * blocks before: it has more of them than others. */
static void rebin_abandoned(struct slab *slab)
{
    enum free_blocks free = take_in(slab);
    struct abandoned_bin *bin = &blocks_heap.abandoned[slab->class_index];
    unlink_slab(slab->state == SLAB_ABANDONED ? &bin->available : &bin->full, slab);
    if (free == SOME_FREE && slab->state == SLAB_ABANDONED)
        push_slab(&bin->available, slab);
    else
        abandon_with(slab, free);
}

static void rebin_abandoned_queued(void)
{
    for (struct slab *slab = take_remote_queue(&blocks_heap.abandoned_queue), *next; slab;
         slab = next) {
        next = slab->next_queued;
        if (thread_heap_of(slab)) { /* [queue is a hint] */
            push_to_owner(slab);
            continue;
        }
        atomic_store_explicit(&slab->queued, false, memory_order_seq_cst);
        if (slab->state == SLAB_ABANDONED || slab->state == SLAB_ABANDONED_FULL)
            rebin_abandoned(slab);
    }
}

static void rebin_abandoned_after_sweep(void)
{
    uint64_t sweeps = atomic_load_explicit(&blocks_heap.sweeps, memory_order_acquire);
    if (blocks_heap.abandoned_rebinned_sweep == sweeps)
        return;
    blocks_heap.abandoned_rebinned_sweep = sweeps;
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        abandon_all(&blocks_heap.abandoned[i].full);
        abandon_all(&blocks_heap.abandoned[i].available);
    }
}

static void rebin_all_abandoned(void)
{
    rebin_abandoned_queued();
    rebin_abandoned_after_sweep();
}

void free_empty_abandoned(void)
{
    if (!lock_enter(&blocks_heap.lock)) {
        frozen_end();
        return;
    }
    rebin_all_abandoned();
    lock_release(&blocks_heap.lock);
}

static struct slab *take_abandoned(unsigned class_index)
{
    struct abandoned_bin *bin = &blocks_heap.abandoned[class_index];
    rebin_all_abandoned();
    struct slab *slab = bin->available;
    if (slab)
        unlink_slab(&bin->available, slab);
    return slab;
}

struct slab *adopt_slab(unsigned class_index, struct thread_heap *heap)
{
    lock_acquire(&blocks_heap.lock);
    struct slab *slab = take_abandoned(class_index);
    if (slab) {
        take_remote_frees(slab);
        set_thread_heap(slab, heap);
    }
    release_and_give_back(0);
    return slab;
}

/* Exit. */

/* With the lock held. */
static void abandon_bin(struct bin *bin)
{
    struct slab *current = bin->current;
    leave_current(bin);
    if (current)
        push_slab(&bin->available, current);
    abandon_all(&bin->available);
    abandon_all(&bin->full);
    start_bin(bin, bin->block_bytes);
}

/* Visits the bins that the thread has used. No other has slabs or local free blocks: a slab comes
 * to a bin only as its current one (make_current), a block to a local free list only from a slab of
 * the bin. */
static void each_used_bin(struct thread_heap *heap, void (*visit)(struct bin *bin))
{
    for (uint64_t used = heap->used_bins; used; used &= used - 1)
        visit(&heap->bins[__builtin_ctzl(used)]);
}

static void leave_thread_heap(void)
{
    thread_heap = (struct thread_heap *)&exited_heap;
}

/* In an operation, or when the heap thaws; then for a thread that has ended. A thread that is
 * stopped here has whole lists, and its slabs are in one list each or in its registers: a
 * collection follows no list of a bin. No fork comes in between: [frozen]. */
static void give_up_thread_heap(struct thread_heap *heap)
{
    each_used_bin(heap, flush_bin_at_exit);
    lock_acquire(&blocks_heap.lock);
    heap->alive = false;
    close_remote_queue(heap);
    each_used_bin(heap, abandon_bin);
    heap->used_bins = 0;
    if (blocks_heap.collector || heap->idle_classes > 0) /* else all are NULL */
        memset(heap->unvisited, 0, sizeof heap->unvisited);
    heap->idle_classes = 0;
    heap->round_began_ns = 0;
    heap->next = blocks_heap.unused_thread_heaps;
    blocks_heap.unused_thread_heaps = heap;
    blocks_heap.threads--;
    if (heap == thread_heap) /* with the lock: then another thread may take the heap */
        leave_thread_heap();
    release_and_give_back(SIZE_MAX);
}

/* In the child the heap has been taken from its thread by now, as all others have. (Not where a
 * handler forked that had interrupted a rebinning: then it is given up here.) */
static void give_up_deferred(const uintptr_t *words)
{
    struct thread_heap *heap = (struct thread_heap *)words[0];
    if (heap->alive)
        give_up_thread_heap(heap);
}

void blocks_thread_exit(void)
{
    struct thread_heap *heap = thread_heap;
    if (operation_begin()) {
        if (heap->alive)
            give_up_thread_heap(heap);
        leave_thread_heap();
        operation_end();
    } else {
        leave_thread_heap(); /* before another thread may take the heap, when it has thawed */
        if (heap->alive)
            defer_one(give_up_deferred, heap);
        frozen_end();
    }
}

/* Fork. */

/* The threads that the child does not have may have been in the middle of a change of their bins.
 * The child forgets these bins, and abandons their slabs with the bits that they have. Their local
 * free lists are whole, and go to the slabs first: [whole list], [the child's copy]. The child
 * loses the blocks that were [on its way], and what lies behind a link that is none, unless a
 * collection finds them. */

/* Whether the block is one of a list of the heap, or [on its way]: the table of bits in slab.h. A
 * block of the program's has its live or its suspect bit. So a word that is no link may end the
 * walk, or lead it to another free block. It never frees what the program has. */
static bool is_free_block_of(const struct thread_heap *heap, size_t class_index, const void *block)
{
    struct slab *slab = slab_at(block);
    size_t index;
    if (!slab || thread_heap_of(slab) != heap || slab->class_index != class_index)
        return false;
    return slab_find(slab, block, &index) &&
           (slab_live(slab, index / SLAB_WORD_BLOCKS) & slab_bit(index)) != 0 &&
           !unit_is_live(fast_table_unit(block)) && !block_is_suspect(slab, index);
}

static void free_local_lists(struct thread_heap *heap)
{
    for (size_t i = 0; i < SIZE_CLASSES; i++) {
        void *block = heap->bins[i].local_free;
        for (; is_free_block_of(heap, i, block); block = *(void **)block)
            set_block_free(block);
        heap->bins[i].local_free = NULL;
    }
}

static void abandon_in_child(void *argument, struct slab *slab)
{
    (void)argument;
    struct thread_heap *heap = thread_heap_of(slab);
    bool queued = atomic_load_explicit(&slab->queued, memory_order_relaxed);
    if (queued) /* a store that changes nothing would still copy the page */
        atomic_store_explicit(&slab->queued, false, memory_order_relaxed);
    if (heap && heap != thread_heap && heap != blocks_heap.common_heap) {
        set_thread_heap(slab, NULL);
        slab->state = SLAB_ABANDONED;
        push_slab(&blocks_heap.abandoned[slab->class_index].available, slab);
    } else if (heap && queued) {
        atomic_store_explicit(&slab->queued, true, memory_order_relaxed);
        push_to_owner(slab);
    }
}

static void forget_thread(void *unused, struct thread_heap *heap)
{
    (void)unused;
    open_remote_queue(heap); /* what is in it is forgotten */
    if (heap == thread_heap || heap == blocks_heap.common_heap)
        return;
    close_remote_queue(heap);
    if (heap->alive)
        free_local_lists(heap);
    heap->alive = heap->in_slow_path = heap->is_ready = false;
    heap->next = blocks_heap.unused_thread_heaps;
    blocks_heap.unused_thread_heaps = heap;
}

/* abandon_in_child fills the queues anew: a thread that the child does not have may have set
 * `queued` and not pushed. Unused records are visited, too: `queued` of one may be set, by such a
 * thread or because it lies in a queue that is forgotten ([queue is a hint]). Otherwise nobody
 * would ever push the slab that the record next serves. */
static void forget_other_threads(void)
{
    blocks_heap.unused_thread_heaps = NULL;
    each_thread_heap(forget_thread, NULL);
    blocks_heap.threads = thread_heap->alive;
}

/* Rebinning and a push are no operations. A thread that forks in a signal handler may have been
 * inside of one, and goes on with it in the child. Then the child keeps all of this thread's state,
 * and the others' slabs stay where they are. */
void blocks_fork_child(void)
{
    if (thread_heap->in_slow_path || is_pushing)
        return;
    forget_other_threads();
    forget_young();
    atomic_store_explicit(&blocks_heap.abandoned_queue.newest, NULL, memory_order_relaxed);
    blocks_heap.abandoned_rebinned_sweep = UINT64_MAX; /* look at every abandoned slab */
    each_slab_record(abandon_in_child, NULL);
}
