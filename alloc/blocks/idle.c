/* SPDX-License-Identifier: MIT
 *
 * idle.c: memory of free blocks in slabs that a thread does not use.
 *
 * Free runs decay (decay.h), but a slab stays as long as one block of it lives, waits in a local
 * free list, or is the only one of its class. After a burst most of a heap may lie in such slabs.
 * So each thread goes through its bins from time to time, in *rounds* that begin two seconds apart
 * or more:
 *
 *     each bin            its local free list goes back to the slabs. What is empty is released
 *     the current slab    is *idle* if it was current in the last round: the class is little used
 *     an available one    is idle if it has as many free blocks as in the last round
 *     an idle slab        the pages on which all blocks are free go back to the kernel. The slab
 *                         stays as it is: a free block has no contents
 *
 * There is no thread for it: a round goes on in the slow path of malloc, a *step* at a time, of 50
 * microseconds as a rule. A process that is quiet comes there a few times a second. One that ends
 * within two seconds never begins a round. The price is a fault for each page that is used again:
 * of the slabs that a thread takes blocks of, each page once in a round.
 *
 * A round is in an operation, so no fork comes between the look at the free bits and the discard
 * ([frozen]). Only this thread hands out blocks of the slab ([owning thread writes]).
 *
 * Not with a collector, which looks into slabs. Not where somebody has written into free blocks and
 * looks later (alloc/checked). Not where the heap has huge pages, which it would break.
 */
#include "alloc/blocks/idle.h"

#include "alloc/blocks/slabs.h"
#include "vm/pages.h"

/* Rounds begin at least so far apart: 2 s. */
static const uint64_t ROUND_NS = UINT64_C(2000000000);

/* A step is over after LOOKS_A_STEP looks at slabs and bins, or after PAGES_A_STEP pages were given
 * back; what comes last may go beyond. To flush BLOCKS_A_LOOK blocks of a local free list costs as
 * much as a look. A block whose slab is rebinned counts as a step: the slab may be released, and up
 * to 1 MiB be given back. */
enum { LOOKS_A_STEP = 32, BLOCKS_A_LOOK = 8, PAGES_A_STEP = 256 };

/* A call for one page costs as much as one for so many more. */
enum { PAGES_A_CALL = 8 };

/* A round flushes this many blocks of a local free list at most. The program may make the list
 * longer meanwhile. */
enum { MOST_FLUSHED = 8192 };

/* Calls until the next look at the clock, where it has not moved on since the last. It moves every
 * few milliseconds. */
enum { BUSY_CALLS = 63 };

/* With the number of free blocks in slab.seen_free: their pages have gone back. */
#define PAGES_GONE (UINT32_C(1) << 31)

/* Pages. */

/* Whether all blocks that have a part of the page are free. Behind the slab's last block all is
 * free. */
static bool page_is_free(const struct slab *slab, size_t page)
{
    size_t start = page * PAGE_BYTES, first = start / slab->block_bytes;
    size_t behind = (start + PAGE_BYTES - 1) / slab->block_bytes + 1;
    behind = behind < slab->capacity ? behind : slab->capacity;
    for (size_t word = first / SLAB_WORD_BLOCKS; word * SLAB_WORD_BLOCKS < behind; word++)
        if (slab_bits_within(word, first, behind) & ~slab->words[word].free)
            return false;
    return true;
}

/* Gives back the pages of a slab on which all blocks are free. Returns the work that it took, in
 * pages. The first refusal ends it: the memory is locked. */
static size_t discard_free_pages(const struct slab *slab)
{
    size_t pages = slab->granules * GRANULE_BYTES / PAGE_BYTES, work = 0;
    for (size_t page = 0; page < pages; page++) {
        size_t first = page;
        while (page < pages && page_is_free(slab, page))
            page++;
        if (page == first)
            continue;
        work += PAGES_A_CALL + page - first;
        if (!pages_discard(slab->base + first * PAGE_BYTES, (page - first) * PAGE_BYTES))
            break;
    }
    return work;
}

/* Returns its work, in pages. */
static size_t give_back_if_idle(struct slab *slab)
{
    uint32_t free = count_free(slab), seen = slab->seen_free;
    if (seen == (free | PAGES_GONE))
        return 0;
    bool is_idle = slab->state == SLAB_CURRENT ? seen != 0 : seen == free;
    slab->seen_free = free | (is_idle ? PAGES_GONE : 0);
    return is_idle ? discard_free_pages(slab) : 0;
}

/* Rounds. */

static unsigned class_of_round(const struct thread_heap *heap)
{
    return SIZE_CLASSES - heap->idle_classes;
}

struct done {
    size_t looks, pages;
};

static bool is_over(const struct done *done)
{
    return done->looks >= LOOKS_A_STEP || done->pages >= PAGES_A_STEP;
}

/* False: the step is over, the list is not empty. */
static bool flush_some(struct thread_heap *heap, struct bin *bin, struct done *done)
{
    for (; bin->local_free && heap->flushed < MOST_FLUSHED; heap->flushed++) {
        if (is_over(done))
            return false;
        if (flush_one(bin))
            done->looks += LOOKS_A_STEP;
        else
            done->looks += heap->flushed % BLOCKS_A_LOOK == 0;
    }
    return true;
}

static void enter_class(struct thread_heap *heap, struct done *done)
{
    unsigned class_index = class_of_round(heap);
    struct bin *bin = &heap->bins[class_index];
    if (!(heap->used_bins >> class_index & 1)) {
        heap->has_entered = true;
        return;
    }
    if (!flush_some(heap, bin, done))
        return;
    heap->has_entered = true;
    done->looks++;
    if (bin->current)
        done->pages += give_back_if_idle(bin->current);
    heap->unvisited[AVAILABLE_LIST][class_index] = bin->available;
}

static void leave_class(struct thread_heap *heap)
{
    heap->idle_classes--;
    heap->has_entered = false;
    heap->flushed = 0;
}

/* Begins a round if it is time. A thread's first round comes ROUND_NS after its first look. False:
 * it is not time. */
static bool begin_round(struct thread_heap *heap, uint64_t now_ns)
{
    if (heap->round_began_ns == 0)
        heap->round_began_ns = now_ns;
    if (now_ns - heap->round_began_ns < ROUND_NS)
        return false;
    rebin_queued(heap);
    heap->round_began_ns = now_ns;
    heap->idle_classes = SIZE_CLASSES;
    heap->has_entered = false;
    heap->flushed = 0;
    return true;
}

void give_back_idle(struct thread_heap *heap, uint64_t now_ns)
{
    struct done done = {0};
    if (heap->idle_classes == 0 && !begin_round(heap, now_ns))
        return;
    while (heap->idle_classes > 0 && !is_over(&done)) {
        struct slab **next = &heap->unvisited[AVAILABLE_LIST][class_of_round(heap)];
        struct slab *slab = heap->has_entered ? *next : NULL;
        if (slab) {
            *next = slab->next;
            done.pages += give_back_if_idle(slab);
            done.looks++;
        } else if (heap->has_entered) {
            leave_class(heap);
        } else {
            enter_class(heap, &done);
        }
    }
}

/* A program that has all free memory stay (M_TRIM_THRESHOLD -1) wants no page fault again. */
static bool may_give_back(void)
{
    return blocks_heap.runs.decay.asked < WINDOW_BYTES / GRANULE_BYTES && !blocks_heap.collector &&
           !blocks_heap.slab_made && blocks_heap.runs.huge_from == 0;
}

void look_for_idle_now(struct thread_heap *heap)
{
    heap->calls_until_look = UINT32_MAX;
    if (!may_give_back())
        return;
    uint64_t now_ns = blocks_heap.runs.now_ns();
    heap->calls_until_look = now_ns == heap->looked_at_ns ? BUSY_CALLS : 0;
    heap->looked_at_ns = now_ns;
    if (heap->in_slow_path)
        return;
    begin_slow_path(heap);
    give_back_idle(heap, now_ns);
    end_slow_path(heap);
}
