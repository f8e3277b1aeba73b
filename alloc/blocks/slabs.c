/* SPDX-License-Identifier: MIT
 *
 * slabs.c: slabs, their lists and states (drawn in slab.h).
 *
 * A bin keeps its slabs in two lists: available ones, of which at least one block in eight is free
 * (reuse_threshold), and full ones, of which fewer are. So a thread does not go through a slab for
 * the sake of a few blocks. A free for which the local free list has no room decrements the count
 * of frees that the block's slab waits for, and does not look at the lists. At zero the slab is
 * rebinned, unless it is current: a full one when it has reached the threshold, an available one
 * when it is empty. Empty slabs go back to the heap's runs of granules (runs.h), unless their bin
 * has no other slab, full ones not counted.
 *
 * A new slab is gone through from another place than the one before it, and round its end to the
 * front: its *start*, which follows from its granule (start_of). Slabs begin at multiples of 64 KiB
 * and programs use the first blocks of each most, so blocks handed out from the front would all
 * fall into the same sets of caches and TLBs. Nothing is left out for it, and the fast paths do not
 * know of it.
 *
 *     granule g      |. . . . S > > > > |      S: block `start`
 *     granule g + 1  |> . . . . S > > > |      >: handed out, in this order
 *
 * The words of bits before the start are left for later. In the start's own word, of which the
 * lowest block is taken first, the blocks before it are held back: their remote bits are set, as if
 * another thread had freed them. The first look at remote frees makes them free. (Bonwick, "The
 * slab allocator", USENIX 1994, shifts the blocks themselves, where a slab has room left over.)
 *
 * All of this belongs to the slab's owning thread ([owning thread writes]). A thread may be stopped
 * in the middle of a change: a collection follows no list of a bin. It asks three things:
 *
 *     bin->current     [current is young], [swept before use]: the order in make_current
 *     SLAB_CURRENT     such a slab need not be offered (young.c). Its thread counts the slab's free
 *                      blocks when it leaves the slab. A stop between that count and the next state
 *                      may leave a slab with many free blocks on the full list until the next
 *                      rebinning. (Where frees are ignored: until a free that counts, until a
 *                      minor collection offers it, or until the rebinning that follows a full one.)
 *     SLAB_UNUSED, SLAB_RUN, SLAB_MAPPING     written with the lock: [no stopped holder]
 */
#include "alloc/blocks/slabs.h"

#include "alloc/blocks/ask_collector.h"
#include "alloc/blocks/late_sweep.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/records.h"
#include "alloc/blocks/remote.h"
#include "alloc/blocks/surplus.h"
#include "alloc/blocks/young.h"
#include "vm/freeze.h"
#include "vm/pages.h"

/* Slabs of blocks above 4 KiB are larger, so that at least eight fit. */
enum { SMALL_SLAB_GRANULES = 1, LARGE_SLAB_GRANULES = 4, SMALL_SLAB_LARGEST = 4096 };

/* Full slabs of its own class that a refill looks at after a late sweep, before it takes a new
 * one. */
enum { VISITS_FOR_OWN_CLASS = 64 };

/* A slab is gone through again when one block in this many is free. Each slab has that many blocks,
 * so the threshold is at least one block. */
enum { REUSE_THRESHOLD_DIVISOR = 8 };
_Static_assert(GRANULE_BYTES / SMALL_SLAB_LARGEST * SMALL_SLAB_GRANULES >= REUSE_THRESHOLD_DIVISOR,
               "slabs of small blocks");
_Static_assert(GRANULE_BYTES / CLASS_LARGEST * LARGE_SLAB_GRANULES >= REUSE_THRESHOLD_DIVISOR,
               "slabs of others");

/* Where slabs start: at one of 16 pages, since a TLB's set follows from the page's number, and at
 * one of eight lines from there. What is left out at the front of the page is at most START_BYTES:
 * more would make slabs of few blocks touch a page more. */
enum { START_PAGES = 16, START_LINES = 8, LINE_BYTES = 64, START_BYTES = 1024 };

static uint32_t count_free_from(const struct slab *slab, size_t first)
{
    uint32_t count = 0;
    size_t words = slab_words(slab);
    for (size_t i = first; i < words; i++)
        count += count_bits(slab->words[i].free);
    return count;
}

uint32_t count_free(const struct slab *slab)
{
    return count_free_from(slab, 0);
}

enum free_blocks free_blocks_of(const struct slab *slab)
{
    bool some = false, all = true;
    size_t words = slab_words(slab);
    for (size_t i = 0; i < words && !(some && !all); i++) {
        uint64_t free = slab->words[i].free;
        some = some || free != 0;
        all = all && free == slab_word_mask(slab, i);
    }
    return all ? ALL_FREE : some ? SOME_FREE : NONE_FREE;
}

static uint32_t reuse_threshold(const struct slab *slab)
{
    return slab->capacity / REUSE_THRESHOLD_DIVISOR;
}

/* Slabs come and go. */

/* While remote frees wait, the owning thread's frees must take the slow path, which looks at the
 * remote bits: [bit before queue]. */
void set_thread_heap(struct slab *slab, struct thread_heap *heap)
{
    atomic_store_explicit(&slab->thread_heap, heap, memory_order_release);
    fast_table_set_bin(slab, heap && !slab_is_queued(slab) ? &heap->bins[slab->class_index] : NULL);
}

size_t slab_granules(unsigned class_index)
{
    return size_class_bytes[class_index] <= SMALL_SLAB_LARGEST ? SMALL_SLAB_GRANULES
                                                               : LARGE_SLAB_GRANULES;
}

/* The block from which a new slab is gone through: soon after the start of the page, or of one
 * before it, that the granule's number says. Neighbours differ in page and line. */
static size_t start_of(const struct slab *slab)
{
    size_t bytes = slab->block_bytes;
    size_t granule = fast_table_unit(slab->base) / UNITS_PER_GRANULE;
    size_t line = (granule + granule / START_PAGES) % START_LINES;
    size_t lines_bytes = bytes <= START_BYTES / 2 ? line * LINE_BYTES : 0;
    for (size_t page = granule % START_PAGES; page > 0; page--) {
        size_t start = (page * PAGE_BYTES + lines_bytes + bytes - 1) / bytes;
        if (start * bytes <= page * PAGE_BYTES + START_BYTES)
            return start;
    }
    return lines_bytes / bytes;
}

/* All blocks of a new slab are free, those held back included. */
static void set_bits(struct slab *slab)
{
    size_t start = start_of(slab), word = start / SLAB_WORD_BLOCKS;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].free = slab_word_mask(slab, i);
    uint64_t held_back = slab_bit(start) - 1;
    slab->words[word].free &= ~held_back;
    atomic_store_explicit(&slab->words[word].remote, held_back, memory_order_relaxed);
    atomic_store_explicit(&slab->start, (uint16_t)start, memory_order_relaxed);
}

struct slab *new_slab(unsigned class_index, struct thread_heap *heap)
{
    size_t granules = slab_granules(class_index);
    size_t block_bytes = size_class_bytes[class_index];
    uint32_t capacity = (uint32_t)(granules * GRANULE_BYTES / block_bytes);
    struct stretch contents;
    char *base = runs_take(&blocks_heap.runs, granules, RUN_ANY, &contents);
    if (!base)
        return NULL;
    bool zero = is_empty(contents);
    struct slab *slab = new_slab_record((capacity + SLAB_WORD_BLOCKS - 1) / SLAB_WORD_BLOCKS);
    if (!slab) {
        runs_give(&blocks_heap.runs, base, granules, zero);
        return NULL;
    }
    set_shape(slab, base, block_bytes, capacity);
    slab->granules = granules;
    slab->class_index = (uint8_t)class_index;
    slab->zero = zero;
    blocks_heap.class_slabs[class_index]++;
    set_bits(slab);
    if (blocks_heap.slab_made)
        blocks_heap.slab_made(slab, zero);
    enter_live_bits(base, granules);
    fast_table_cover(base, granules);
    granule_map_set(base, granules * GRANULE_BYTES, slab);
    set_thread_heap(slab, heap);
    return slab;
}

/* A remote free queue may still have the record: [queue is a hint]. */
void release_slab(struct slab *slab)
{
    char *base = slab->base;
    size_t granules = slab->granules;
    if (quarantine_on)
        quarantine_look_before_drop(slab);
    set_thread_heap(slab, NULL);
    blocks_heap.class_slabs[slab->class_index]--;
    drop_slab_record(slab);
    runs_give(&blocks_heap.runs, base, granules, false);
    blocks_heap.used_granules = blocks_heap.runs.used_granules;
}

/* False: the heap is frozen, and the slab stays whose it was. */
static bool release(struct slab *slab)
{
    if (!lock_enter(&blocks_heap.lock)) {
        frozen_end();
        return false;
    }
    size_t granules = slab->granules;
    release_slab(slab);
    release_and_give_back(granules);
    return true;
}

/* Rebinning. */

/* A slab of this thread that is neither current nor on a list. It is not released while it is
 * queued: [queue is a hint]. */
static void insert_in_bin(struct bin *bin, struct slab *slab)
{
    take_remote_frees(slab);
    uint32_t count = count_free(slab);
    if (count == slab->capacity && (bin->available || bin->current) && !slab_is_queued(slab) &&
        release(slab))
        return;
    if (count >= reuse_threshold(slab)) {
        slab->state = SLAB_AVAILABLE;
        slab->frees_until_rebin = count < slab->capacity ? slab->capacity - count : NEVER_REBIN;
        push_slab(&bin->available, slab);
    } else {
        slab->state = SLAB_FULL;
        slab->frees_until_rebin = reuse_threshold(slab) - count;
        push_slab(&bin->full, slab);
    }
}

static void unlink_from_bin(struct bin *bin, struct slab *slab)
{
    if (slab->state != SLAB_AVAILABLE && slab->state != SLAB_FULL)
        return;
    unsigned list = slab->state == SLAB_FULL ? FULL_LIST : AVAILABLE_LIST;
    struct slab **unvisited = &thread_heap_of(slab)->unvisited[list][slab->class_index];
    if (*unvisited == slab)
        *unvisited = slab->next;
    unlink_slab(list == FULL_LIST ? &bin->full : &bin->available, slab);
}

/* The slab has had as many frees as it waited for, or others have freed blocks of it. */
static void rebin(struct slab *slab)
{
    if (slab->state == SLAB_CURRENT) {
        slab->frees_until_rebin = NEVER_REBIN;
        return;
    }
    struct bin *bin = &thread_heap_of(slab)->bins[slab->class_index];
    unlink_from_bin(bin, slab);
    insert_in_bin(bin, slab);
}

void rebin_queued(struct thread_heap *heap)
{
    struct slab *slab = take_remote_queue(&heap->remote_queue);
    while (slab) {
        struct slab *next = slab->next_queued;
        if (thread_heap_of(slab) != heap) { /* [queue is a hint] */
            push_to_owner(slab);
        } else {
            atomic_store_explicit(&slab->queued, false, memory_order_seq_cst);
            set_thread_heap(slab, heap);
            if (slab->state != SLAB_CURRENT)
                rebin(slab);
        }
        slab = next;
    }
}

void rebin_after_sweep(struct thread_heap *heap, unsigned class_index)
{
    struct bin *bin = &heap->bins[class_index];
    uint64_t sweeps = atomic_load_explicit(&blocks_heap.sweeps, memory_order_acquire);
    if (bin->rebinned_sweep == sweeps)
        return;
    bin->rebinned_sweep = sweeps;
    bool late = atomic_load_explicit(&blocks_heap.sweep_was_late, memory_order_relaxed);
    heap->unvisited[AVAILABLE_LIST][class_index] = late ? bin->available : NULL;
    heap->unvisited[FULL_LIST][class_index] = late ? bin->full : NULL;
    if (late)
        return; /* slab by slab: visit_list */
    struct slab *lists[] = {bin->full, bin->available};
    bin->full = bin->available = NULL;
    for (size_t i = 0; i < 2; i++)
        for (struct slab *slab = lists[i], *next; slab; slab = next) {
            next = slab->next;
            insert_in_bin(bin, slab);
        }
}

void rebin_all_after_sweep(struct thread_heap *heap)
{
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        rebin_after_sweep(heap, i);
}

/* Sweeps and rebins slabs of a list that have not been looked at since a late sweep: at most
 * `most`, or until the bin has an available one. Returns how many. */
static unsigned visit_list(struct thread_heap *heap, unsigned class_index, unsigned list,
                           unsigned most, bool until_available)
{
    struct bin *bin = &heap->bins[class_index];
    unsigned visited = 0;
    for (; visited < most && !(until_available && bin->available); visited++) {
        struct slab *slab = heap->unvisited[list][class_index];
        if (!slab)
            break;
        unlink_from_bin(bin, slab);
        sweep_before_use(slab);
        insert_in_bin(bin, slab);
    }
    return visited;
}

bool find_available_after_sweep(struct thread_heap *heap, unsigned class_index)
{
    struct bin *bin = &heap->bins[class_index];
    visit_list(heap, class_index, FULL_LIST, VISITS_FOR_OWN_CLASS, true);
    return bin->available != NULL;
}

void visit_some_after_sweep(struct thread_heap *heap, unsigned most)
{
    for (unsigned i = 0; i < SIZE_CLASSES && most > 0; i++) {
        unsigned class_index = heap->visited_class;
        rebin_after_sweep(heap, class_index);
        most -= visit_list(heap, class_index, FULL_LIST, most, false);
        most -= visit_list(heap, class_index, AVAILABLE_LIST, most, false);
        if (most > 0)
            heap->visited_class = (class_index + 1) % SIZE_CLASSES;
    }
}

/* Frees that go to the slab. */

/* [on its way]: the block is in a register until its bit is set. */
struct slab *set_block_free(void *block)
{
    struct slab *slab = slab_at(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    slab_set_free(&slab->words[index / SLAB_WORD_BLOCKS], slab_bit(index));
    keep_in_register(block);
    return --slab->frees_until_rebin == 0 ? slab : NULL;
}

/* A queued slab is released, if all of it is free, when the queue is taken. Where rebin() has
 * released the slab, the look at its record takes the queue for nothing at worst. A handler's frees
 * may get the slab released before: [one operation]. */
void free_to_slab(struct bin *bin, void *block)
{
    bin->local_free_room = 0;
    struct slab *slab = set_block_free(block);
    if (!slab)
        return;
    begin_slow_path(thread_heap);
    rebin(slab);
    if (slab_is_queued(slab))
        rebin_queued(thread_heap);
    end_slow_path(thread_heap);
}

/* Takes the first block from a bin's local free list, which is not empty, and sets its free bit. A
 * collection may come between: [whole list], [on its way]. Returns its slab if that is to be
 * rebinned, else NULL. */
static struct slab *flush_block(struct bin *bin)
{
    void *block = bin->local_free;
    bin->local_free = *(void **)block;
    bin->local_free_room++;
    return set_block_free(block);
}

bool flush_one(struct bin *bin)
{
    struct slab *slab = flush_block(bin);
    if (slab)
        rebin(slab);
    return slab != NULL;
}

void flush_local_free(struct thread_heap *heap)
{
    for (size_t i = 0; i < SIZE_CLASSES; i++)
        while (heap->bins[i].local_free)
            flush_one(&heap->bins[i]);
}

void flush_bin_at_exit(struct bin *bin)
{
    while (bin->local_free)
        flush_block(bin);
}

void blocks_flush_thread(void)
{
    if (!thread_heap->alive || thread_heap->in_slow_path)
        return;
    begin_slow_path(thread_heap);
    flush_local_free(thread_heap);
    rebin_queued(thread_heap);
    rebin_all_after_sweep(thread_heap);
    end_slow_path(thread_heap);
}

/* The current slab. */

/* In this order: [current is young], [swept before use]. */
bool make_current(struct bin *bin, struct slab *slab)
{
    slab->state = SLAB_CURRENT;
    slab->frees_until_rebin = NEVER_REBIN;
    slab->seen_free = 0;
    thread_heap_of(slab)->used_bins |= UINT64_C(1) << slab->class_index;
    bin->current = slab;
    atomic_signal_fence(memory_order_seq_cst);
    enter_young(slab);
    sweep_before_use(slab);
    atomic_signal_fence(memory_order_seq_cst);
    size_t first = atomic_load_explicit(&slab->start, memory_order_relaxed) / SLAB_WORD_BLOCKS;
    if (counts_taken())
        count_taken(count_free_from(slab, first) * slab->block_bytes);
    return find_word(bin, first);
}

bool use_current(struct bin *bin)
{
    struct slab *slab = bin->current;
    if (!slab)
        return false;
    if (bin->free_word && find_word(bin, current_word(bin) + 1))
        return true;
    bool front_waits = atomic_load_explicit(&slab->start, memory_order_relaxed) > 0;
    take_remote_frees(slab);
    uint32_t count = count_free(slab);
    if (front_waits || count >= reuse_threshold(slab)) {
        count_taken(count * slab->block_bytes);
        return find_word(bin, 0);
    }
    leave_current(bin);
    insert_in_bin(bin, slab);
    return false;
}

bool use_available(struct bin *bin)
{
    struct slab *slab = bin->available;
    if (!slab)
        return false;
    unlink_from_bin(bin, slab);
    take_remote_frees(slab);
    return make_current(bin, slab);
}
