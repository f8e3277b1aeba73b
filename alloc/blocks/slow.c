/* SPDX-License-Identifier: MIT
 *
 * slow.c: where malloc and free go on when the fast paths cannot.
 *
 * malloc, when the bin has no local free block and its word of free bits is zero, looks in this
 * order for a word that is not:
 *
 *     the next word of the current slab; round the slab, as long as enough of it is free
 *     the slabs of the bin, after those in the remote free queue were rebinned
 *     a slab that an exited thread abandoned
 *     a new slab, if the collector lets the heap grow
 *
 * The pages of a new slab come one by one as they are written, unless its class grows: then one
 * call brings them all, which costs two thirds of what so many faults do.
 *
 * When there is no memory for a new one, the local free lists are flushed, because a block in one
 * keeps a whole slab from serving another size, and all is gone through again.
 *
 * free comes here with blocks of other threads and large ones, with those that the fast table does
 * not cover, and with the thread's own in slabs whose remote frees wait. Its steps, and what a
 * thread leaves that is stopped behind each:
 *
 *     sweep the slab, if a late sweep has left it    the program's block. (A dead one is free now:
 *                                                    the program hides pointers.)
 *     look: is it live, or a suspect?                the program's
 *     suspect bit: clear                             [on its way]: it looks like the program's
 *     retired bit: clear, with a collector           [on its way]: the same, and is followed
 *     the thread's own block: live bit, list         as in fast.c
 *     another's: remote bit                          remote.c
 *     a large one: the lock                          large.c
 */
#include "alloc/blocks/slow.h"

#include "alloc/blocks/ask_collector.h"
#include "alloc/blocks/idle.h"
#include "alloc/blocks/large.h"
#include "alloc/blocks/late_sweep.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/remote.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/surplus.h"
#include "alloc/blocks/threads.h"
#include "vm/freeze.h"
#include "vm/pages.h"

/* malloc. */

/* Slabs of any class that are swept for each new one, as long as a late sweep has left some. So
 * while the heap grows by one slab, the dead blocks of so many come free. Some are swept for each
 * slab that is used again, too: an empty slab in a thread's bin is of no use to other classes until
 * the thread has looked at it. */
enum { VISITS_FOR_NEW_SLAB = 16, VISITS_FOR_REUSED_SLAB = 8 };

static bool adopt(struct thread_heap *heap, unsigned class_index)
{
    struct slab *slab = adopt_slab(class_index, heap);
    return slab && make_current(&heap->bins[class_index], slab);
}

/* Whether all of a new slab's pages will soon be written, so that one call brings them: blocks of
 * its class are smaller than a page, and it has many slabs, of which all but one for each thread
 * are full or have been. With the lock held. */
static bool will_be_full(const struct slab *slab)
{
    size_t slabs = blocks_heap.class_slabs[slab->class_index], from = blocks_heap.populate_from;
    return slab->zero && from > 0 && slabs > from * blocks_heap.threads &&
           slab->block_bytes <= PAGE_BYTES;
}

static bool take_new_slab(struct thread_heap *heap, unsigned class_index)
{
    lock_acquire(&blocks_heap.lock);
    struct slab *slab = new_slab(class_index, heap);
    bool populate = slab && will_be_full(slab);
    blocks_heap.used_granules = blocks_heap.runs.used_granules;
    release_and_give_back(slab_granules(class_index));
    if (populate)
        pages_populate(slab->base, slab->granules * GRANULE_BYTES);
    return slab && make_current(&heap->bins[class_index], slab);
}

/* Called when a slab that had room has become current. Gives back surplus: time passes also where
 * no run is taken or given back, as in a quiet server whose slabs have room. Adoption and a new
 * slab give it back by themselves. */
static void give_back_surplus(struct thread_heap *heap)
{
    if (sweep_was_late())
        visit_some_after_sweep(heap, VISITS_FOR_REUSED_SLAB);
    lock_acquire(&blocks_heap.lock);
    release_and_give_back(0);
}

/* Gives the bin a word with a free block. False: out of memory. */
static bool refill(struct thread_heap *heap, unsigned class_index)
{
    struct bin *bin = &heap->bins[class_index];
    bool exhausted = false;
    for (unsigned tries = 0;; tries++) {
        if (use_current(bin))
            return true;
        if (tries == 0 && collect_if_due())
            rebin_all_after_sweep(heap); /* what is empty now serves any class */
        rebin_after_sweep(heap, class_index);
        rebin_queued(heap);
        if (use_available(bin) ||
            (sweep_was_late() && find_available_after_sweep(heap, class_index) &&
             use_available(bin))) {
            give_back_surplus(heap);
            return true;
        }
        if (adopt(heap, class_index))
            return true;
        enum growth growth = ask_collector(
            BLOCK_ALIGNMENT, slab_granules(class_index) * GRANULE_BYTES, tries, exhausted);
        if (growth == REFUSE)
            return false;
        if (growth == RETRY) {
            rebin_all_after_sweep(heap); /* what is empty now serves any class */
            continue;
        }
        if (sweep_was_late())
            visit_some_after_sweep(heap, VISITS_FOR_NEW_SLAB);
        if (take_new_slab(heap, class_index))
            return true;
        if (exhausted && !blocks_heap.collector)
            return false;
        if (!exhausted)
            flush_local_free(heap);
        exhausted = true;
    }
}

static void *alloc_from(struct thread_heap *heap, unsigned class_index)
{
    struct bin *bin = &heap->bins[class_index];
    if (bin->local_free)
        return take_local_free(bin);
    if (current_free_word(bin) == 0) {
        begin_slow_path(heap);
        bool filled = refill(heap, class_index);
        end_slow_path(heap);
        if (!filled)
            return NULL;
    }
    return take_lowest_free(bin, *bin->free_word);
}

static void *alloc_from_common(unsigned class_index)
{
    lock_acquire(&blocks_heap.common_lock);
    struct thread_heap *heap = common_heap();
    void *block = heap ? alloc_from(heap, class_index) : NULL;
    lock_release(&blocks_heap.common_lock);
    return block;
}

static void *alloc_small(size_t size)
{
    unsigned class_index = size_class_of(size);
    if (!thread_heap->alive)
        return alloc_from_common(class_index);
    void *block = alloc_from(thread_heap, class_index);
    if (collector_counts())
        thread_heap->bins[class_index].free_word = NULL; /* the next comes here as well */
    return block;
}

/* In an operation. */
static void *alloc_in_operation(size_t size, enum run_wish wish)
{
    if (collector_counts())
        blocks_heap.collector->before_allocation();
    if (thread_heap->alive)
        look_for_idle(thread_heap);
    if (size <= CLASS_LARGEST)
        return alloc_small(size);
    return large_block_alloc(BLOCK_ALIGNMENT, size, wish);
}

static void *alloc_wished(size_t size, enum run_wish wish)
{
    if (!thread_heap->alive)
        start_thread();
    if (size > (size_t)PTRDIFF_MAX)
        return refuse_memory();
    void *block;
    if (operation_begin()) {
        block = alloc_in_operation(size, wish);
        operation_end();
    } else {
        block = large_block_alloc_frozen(BLOCK_ALIGNMENT, size);
        frozen_end();
    }
    return block ? block : refuse_memory();
}

void *alloc_slowly(size_t size)
{
    return alloc_wished(size, RUN_ANY);
}

void *alloc_large_zeroed(size_t size)
{
    return alloc_wished(size, RUN_ZERO);
}

/* free. */

/* Frees a block of this thread's slab. The fence keeps the compiler from changing the live bit
 * after the list: the child of a fork takes a listed block with a live bit for the program's
 * ([the child's copy]). */
static void free_own(const struct slab *slab, void *block)
{
    struct bin *bin = &thread_heap->bins[slab->class_index];
    clear_live(fast_table_unit(block));
    atomic_signal_fence(memory_order_seq_cst);
    if (--bin->local_free_room < 0)
        free_to_slab(bin, block);
    else
        put_local_free(bin, block);
}

/* Whether the block is the program's, and in another thread's slab. *index: in the slab. Asks the
 * live bit alone, since the owning thread writes to the free bits' cache line. The live bit is
 * enough without a collector: then no live bit is late, and no block is a suspect. False: it is
 * not, or the heap has a collector. */
static bool is_live_of_other_thread(const struct slab *slab, const void *block, size_t *index)
{
    if (blocks_heap.collector || slab_is_large(slab) || thread_heap_of(slab) == thread_heap)
        return false;
    bool exact;
    *index = slab_index(slab, block, &exact);
    return exact && unit_is_live(fast_table_unit(block));
}

/* Frees what lies in no slab. */
static __attribute__((noinline, cold)) void free_outside(void *block)
{
    const struct owner *owner = granule_map_get(block);
    if (owner && owner->kind == OWNER_GUARDED)
        blocks_heap.free_guarded(block);
    else
        slab_of_block(block, "free"); /* reports it */
}

void free_slowly(void *block)
{
    struct slab *slab = slab_at(block);
    if (__builtin_expect(!slab, 0)) {
        free_outside(block);
        return;
    }
    sweep_before_free(slab);
    size_t index;
    if (is_live_of_other_thread(slab, block, &index)) {
        push_remote_free(slab, block, index);
        return;
    }
    index = live_index(slab, block, "free");
    clear_suspects(slab, index / SLAB_WORD_BLOCKS, slab_bit(index));
    if (blocks_heap.collector)
        clear_retired(slab, index / SLAB_WORD_BLOCKS, slab_bit(index));
    if (slab_is_large(slab))
        large_block_free(slab, block);
    else if (thread_heap_of(slab) == thread_heap)
        free_own(slab, block);
    else
        push_remote_free(slab, block, index);
}
