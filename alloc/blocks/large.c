/* SPDX-License-Identifier: MIT
 *
 * large.c: blocks above 32 KiB, each a slab of one block.
 *
 * Up to 32 MiB (mallopt can change that) a block is a run of the heap's granules, which the next
 * one can use without a system call. A larger block, or one that has outgrown its run, is a mapping
 * of its own: it is given back at once, and grows by moving page tables instead of bytes. Either
 * way only whole pages count as usable, so that the untouched end of the last granule takes no
 * memory.
 *
 * A large block has no live bit and no owning thread: the holder of the heap's lock writes its
 * shape and its lists, and heap.h tells who writes its bits. A thread that is stopped while it
 * frees one leaves:
 *
 *     suspect, retired bits cleared    the program's block, its address in a register, until the
 *       (slow.c); waits for the lock   thread has the lock: [on its way]
 *     has the lock                     is not stopped, and no other thread forks:
 *                                      [no stopped holder]
 *     in a frozen heap
 *       free bit set                   a free block that keeps its memory; a second free is
 *                                      reported
 *       call noted                     the same, until the heap thaws (vm/deferred.h)
 *
 * The child of a fork may have the free bit and not the call; so has the parent where there was no
 * memory to note it. It keeps the block's memory until a collection gives back what is free
 * (blocks_swept), if there is one.
 *
 * A thread that is stopped while it allocates one, after it has given up the lock, has the address
 * in a register.
 */
#include "alloc/blocks/large.h"

#include <string.h>

#include "alloc/blocks/ask_collector.h"
#include "alloc/blocks/late_sweep.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/records.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/surplus.h"
#include "alloc/blocks/threads.h"
#include "alloc/blocks/young.h"
#include "alloc/fork_block.h"
#include "vm/deferred.h"
#include "vm/freeze.h"
#include "vm/granule_map.h"
#include "vm/pages.h"

/* From so many bytes on a block is a mapping. */
static _Atomic size_t mapping_bytes = (size_t)32 << 20;

void large_blocks_map_from(size_t bytes)
{
    atomic_store_explicit(&mapping_bytes, bytes, memory_order_relaxed);
}

static size_t mapping_from_now(void)
{
    return atomic_load_explicit(&mapping_bytes, memory_order_relaxed);
}

static size_t granules_for(size_t bytes)
{
    return round_up(bytes, GRANULE_BYTES) / GRANULE_BYTES;
}

static size_t usable_for(size_t size)
{
    return round_up(size > 0 ? size : 1, PAGE_BYTES);
}

static void count_large(ptrdiff_t blocks, ptrdiff_t bytes)
{
    blocks_heap.large_blocks += (uint64_t)blocks;
    blocks_heap.large_bytes += (uint64_t)bytes;
}

/* Enters a block whose memory is there. */
static void enter(struct slab *slab, char *base, size_t usable, size_t granules,
                  enum slab_state state)
{
    set_shape(slab, base, usable, 1);
    slab->granules = granules;
    slab->state = (uint8_t)state;
    count_large(1, (ptrdiff_t)usable);
    if (state == SLAB_MAPPING)
        push_slab(&blocks_heap.mappings, slab);
    enter_young(slab);
}

static struct slab *take_run(size_t usable, struct stretch *contents)
{
    size_t granules = granules_for(usable);
    char *base = runs_take(&blocks_heap.runs, granules, RUN_ANY, contents);
    if (!base)
        return NULL;
    struct slab *slab = new_slab_record(1);
    if (!slab) {
        runs_give(&blocks_heap.runs, base, granules, is_empty(*contents));
        return NULL;
    }
    slab->zero = is_empty(*contents);
    enter(slab, base, usable, granules, SLAB_RUN);
    granule_map_set(base, granules * GRANULE_BYTES, slab);
    return slab;
}

/* Mappings lie below the window if they can, each below the one before, with as much room to grow
 * as it has bytes. So the addresses of all blocks have few upper halves, and by these a collector
 * tells most other words apart (gc/mark/candidates.h). The 4 GiB next to the window are for
 * the table of bins (fast_table.h). */
static const uintptr_t MAPPINGS_BELOW = (uintptr_t)4 << 30, MAPPINGS_SPAN = (uintptr_t)48 << 30;

/* A few old mappings may stand in the way when the places begin again from above. */
enum { PLACES_TRIED = 4 };

/* Moves a place for a mapping and its room down, so that neither lies across a multiple of 4 GiB
 * (vm/pages.c says why). One with 2 GiB of room or more stays where it is. */
static uintptr_t below_multiple(uintptr_t from, size_t room, size_t alignment)
{
    const uintptr_t multiples = (uintptr_t)1 << 32;
    if (room >= multiples / 2 || (from - 1) / multiples == (from + room) / multiples)
        return from;
    return round_down(round_down(from + room, multiples) - GRANULE_BYTES - room, alignment);
}

/* The next place for a mapping; it may be taken. NULL: for one of this size there is none. */
static void *place_of_mapping(size_t alignment, size_t bytes)
{
    uintptr_t first = window.base - MAPPINGS_BELOW, lowest = first - MAPPINGS_SPAN;
    uintptr_t end = blocks_heap.mappings ? blocks_heap.mappings_from : first;
    size_t room = 2 * bytes;
    if (bytes > MAPPINGS_SPAN / 16 || alignment > MAPPINGS_SPAN / 16)
        return NULL;
    if (bytes >= HUGE_PAGE_BYTES && alignment < HUGE_PAGE_BYTES)
        alignment = HUGE_PAGE_BYTES;
    if (end - lowest < 2 * (room + alignment) + GRANULE_BYTES)
        end = first;
    blocks_heap.mappings_from = below_multiple(round_down(end - room, alignment), room, alignment);
    return (void *)blocks_heap.mappings_from;
}

static bool is_free(void *place, size_t bytes)
{
    return !pages_in_use(place, bytes);
}

/* A place for which `suits` is true. NULL: there is none among the next few. */
static void *find_place(size_t alignment, size_t bytes, bool (*suits)(void *place, size_t bytes))
{
    for (int tries = 0; tries < PLACES_TRIED; tries++) {
        void *place = place_of_mapping(alignment, bytes);
        if (!place || suits(place, bytes))
            return place;
    }
    return NULL;
}

static char *map_mapping(size_t alignment, size_t bytes)
{
    char *base = find_place(alignment, bytes, pages_map_at);
    return base ? base : pages_map(bytes, alignment);
}

static struct slab *take_mapping(size_t alignment, size_t usable)
{
    size_t granules = granules_for(usable), bytes = granules * GRANULE_BYTES;
    char *base = map_mapping(alignment, bytes);
    struct slab *slab = base ? new_slab_record(1) : NULL;
    if (!slab || !granule_map_set(base, bytes, slab)) {
        if (slab)
            drop_slab_record(slab);
        if (base) {
            granule_map_set(base, bytes, NULL);
            pages_unmap(base, bytes);
        }
        return NULL;
    }
    slab->zero = true;
    enter(slab, base, usable, granules, SLAB_MAPPING);
    blocks_heap.mapped_granules += granules;
    account_mapped((ptrdiff_t)bytes);
    return slab;
}

/* If no mapping can be had, the heap may have room. Who wants zeros (RUN_ZERO) gets dirty memory
 * first like everybody: the heap then needs no more, and what is there costs no faults. */
static struct slab *take_large(size_t alignment, size_t usable, size_t mapping_from,
                               struct stretch *contents)
{
    struct slab *slab = NULL;
    if (alignment > GRANULE_BYTES)
        return take_mapping(alignment, usable);
    if (usable >= mapping_from)
        slab = take_mapping(GRANULE_BYTES, usable);
    return slab ? slab : take_run(usable, contents);
}

static bool page_is_zero(const char *page)
{
    return page[0] == 0 && memcmp(page, page + 1, PAGE_BYTES - 1) == 0;
}

/* For calloc. To clear a page costs less than to have the kernel take it and bring another. A page
 * that nobody has written to is only read: it gets no memory by that. */
static void clear(struct stretch contents, const char *end)
{
    for (char *page = contents.start; page < contents.end && page < end; page += PAGE_BYTES)
        if (!page_is_zero(page))
            memset(page, 0, PAGE_BYTES);
}

/* Sweeps and rebins a slab for each granule that is about to be taken, if a late sweep has left
 * some: slabs may have become empty (late_sweep.h). */
static void visit_for_large(size_t granules)
{
    enum { MOST_VISITS = 256 };
    if (!thread_heap->alive || thread_heap->in_slow_path || !sweep_was_late())
        return;
    begin_slow_path(thread_heap);
    rebin_queued(thread_heap); /* what is queued is not released: [queue is a hint] */
    visit_some_after_sweep(thread_heap, granules < MOST_VISITS ? (unsigned)granules : MOST_VISITS);
    end_slow_path(thread_heap);
}

static void *alloc(size_t alignment, size_t size, size_t mapping_from, enum run_wish wish)
{
    if (size > (size_t)PTRDIFF_MAX - GRANULE_BYTES)
        return NULL;
    size_t usable = usable_for(size);
    bool exhausted = false;
    for (unsigned tries = 0;; tries++) {
        if (ask_collector(alignment, usable, tries, exhausted) == REFUSE)
            return NULL;
        visit_for_large(granules_for(usable));
        lock_acquire(&blocks_heap.lock);
        struct stretch contents = {0};
        struct slab *slab = take_large(alignment, usable, mapping_from, &contents);
        blocks_heap.used_granules = blocks_heap.runs.used_granules;
        void *block = slab ? slab->base : NULL;
        keep_in_register(block);
        release_and_give_back(granules_for(usable));
        if (block) {
            if (wish == RUN_ZERO)
                clear(contents, slab->base + usable);
            count_taken(usable);
            return block;
        }
        if (exhausted && !blocks_heap.collector)
            return NULL;
        if (!exhausted) {
            blocks_flush_thread(); /* a local free block keeps a whole slab from serving */
            free_empty_abandoned();
        }
        exhausted = true;
    }
}

void *large_block_alloc(size_t alignment, size_t size, enum run_wish wish)
{
    return alloc(alignment, size, mapping_from_now(), wish);
}

void *large_block_alloc_to_grow(size_t size)
{
    void *block = NULL;
    if (operation_begin()) {
        size_t from = mapping_from_now() == SIZE_MAX ? SIZE_MAX : 0; /* none, the program said */
        block = alloc(BLOCK_ALIGNMENT, size, from, RUN_ANY);
        operation_end();
    } else {
        frozen_end();
    }
    return block;
}

/* A mapping that the kernel refuses to unmap (max_map_count) loses its pages, and its addresses are
 * lost. No slab may be there again: it lies outside the window. */
static void give_mapping_back(struct slab *slab)
{
    size_t bytes = slab->granules * GRANULE_BYTES;
    blocks_heap.mapped_granules -= slab->granules;
    account_mapped(-(ptrdiff_t)bytes);
    granule_map_set(slab->base, bytes, NULL);
    if (!pages_unmap(slab->base, bytes))
        pages_discard(slab->base, bytes);
}

/* Blocks that are made while the heap is frozen (alloc/fork_block.h). The record stands in the
 * block's mapping, so such slabs are on a list of their own, from the thaw on. Without memory for
 * the noted call there is none for the block: a collection would not visit a slab that is on no
 * list. Its mark would stay once it is set, and later collections would not follow the block. */

static void drop_fork_slab(struct slab *slab)
{
    struct fork_mapping mapping = {slab, slab->base, slab->block_bytes};
    granule_map_set(slab->base, slab->granules * GRANULE_BYTES, NULL);
    fork_mapping_drop(&mapping);
}

static void list_fork_slab(struct slab *slab)
{
    push_slab(&blocks_heap.fork_slabs, slab);
    count_large(1, (ptrdiff_t)slab->block_bytes);
    blocks_heap.mapped_granules += slab->granules;
    account_mapped((ptrdiff_t)(slab->granules * GRANULE_BYTES));
}

/* When the heap thaws. */
static void list_deferred(const uintptr_t *words)
{
    struct slab *slab = (struct slab *)words[0];
    lock_acquire(&blocks_heap.lock);
    list_fork_slab(slab);
    lock_release(&blocks_heap.lock);
}

void *large_block_alloc_frozen(size_t alignment, size_t size)
{
    struct fork_mapping mapping = fork_mapping_make(alignment, size);
    struct slab *slab = mapping.record;
    if (!slab)
        return NULL;
    slab->few_words = true;
    slab->state = SLAB_MAPPING;
    slab->zero = true;
    slab->is_of_fork = true;
    slab->granules = granules_for(mapping.usable);
    set_shape(slab, mapping.payload, mapping.usable, 1);
    if (!granule_map_set(mapping.payload, slab->granules * GRANULE_BYTES, slab) ||
        !defer_one(list_deferred, slab)) {
        drop_fork_slab(slab);
        return NULL;
    }
    count_taken(mapping.usable);
    return mapping.payload;
}

static void unlist_fork_slab(struct slab *slab)
{
    unlink_slab(&blocks_heap.fork_slabs, slab);
    count_large(-1, -(ptrdiff_t)slab->block_bytes);
    blocks_heap.mapped_granules -= slab->granules;
    account_mapped(-(ptrdiff_t)(slab->granules * GRANULE_BYTES));
}

static void free_fork_slab(struct slab *slab)
{
    unlist_fork_slab(slab);
    drop_fork_slab(slab);
}

bool large_block_close(struct slab *slab)
{
    slab->is_closed = pages_guard(slab->base, slab->block_bytes);
    return slab->is_closed;
}

/* [open when free]. False: the kernel refuses. */
static bool open_block(struct slab *slab)
{
    if (slab->is_closed && pages_unguard(slab->base, slab->block_bytes))
        slab->is_closed = false;
    return !slab->is_closed;
}

void large_block_free_locked(struct slab *slab)
{
    if (slab->state != SLAB_MAPPING && !open_block(slab))
        return; /* it is dead; blocks_swept tries again, or the next ageing (quarantine.c) */
    if (slab->is_of_fork) {
        free_fork_slab(slab);
        return;
    }
    count_large(-1, -(ptrdiff_t)slab->block_bytes);
    if (slab->state == SLAB_MAPPING)
        unlink_slab(&blocks_heap.mappings, slab);
    struct slab gone = *slab;
    drop_slab_record(slab);
    if (gone.state == SLAB_MAPPING)
        give_mapping_back(&gone);
    else
        runs_give(&blocks_heap.runs, gone.base, gone.granules, false);
    blocks_heap.used_granules = blocks_heap.runs.used_granules;
}

static void free_and_release(struct slab *slab)
{
    size_t granules = slab->granules;
    large_block_free_locked(slab);
    release_and_give_back(granules);
}

static void free_deferred(const uintptr_t *words)
{
    lock_acquire(&blocks_heap.lock);
    free_and_release((struct slab *)words[0]);
}

/* The block's address stays in a register until the lock is taken: [on its way]. A second free of
 * the block that waited for the first finds another block's record, or an unused one; or it faults,
 * if the block was made during a fork, whose record goes with it. A second free that comes while
 * the heap is frozen finds the free bit. */
void large_block_free(struct slab *slab, void *block)
{
    if (!lock_enter(&blocks_heap.lock)) {
        slab_set_free(&slab->words[0], 1);
        defer_one(free_deferred, slab);
        frozen_end();
        return;
    }
    keep_in_register(block);
    if (slab->base != block || !slab_is_large(slab) || (slab_free(&slab->words[0]) & 1)) {
        lock_release(&blocks_heap.lock);
        report_not_live("free", block);
    }
    free_and_release(slab);
}

static void set_usable(struct slab *slab, size_t usable)
{
    count_large(0, (ptrdiff_t)usable - (ptrdiff_t)slab->block_bytes);
    slab->block_bytes = usable;
}

static bool resize_run(struct slab *slab, size_t usable)
{
    size_t granules = granules_for(usable);
    char *end = slab->base + slab->granules * GRANULE_BYTES;
    if (granules > slab->granules) {
        size_t more = granules - slab->granules;
        if (!runs_take_at(&blocks_heap.runs, end, more))
            return false;
        granule_map_set(end, more * GRANULE_BYTES, slab);
        slab->granules = granules;
    } else if (granules < slab->granules) {
        size_t less = slab->granules - granules;
        if (!runs_give_tail(&blocks_heap.runs, end - less * GRANULE_BYTES, less))
            return false;
        slab->granules = granules;
    }
    set_usable(slab, usable);
    return true;
}

/* Shrinking clears the granule map's entries first, growing sets them last: what is unmapped may be
 * another thread's at once. */
static bool resize_mapping_in_place(struct slab *slab, size_t bytes)
{
    size_t old_bytes = slab->granules * GRANULE_BYTES;
    char *base = slab->base;
    if (bytes < old_bytes)
        granule_map_set(base + bytes, old_bytes - bytes, NULL);
    bool resized = bytes == old_bytes || pages_resize_in_place(base, old_bytes, bytes);
    if (resized && bytes > old_bytes &&
        !granule_map_set(base + old_bytes, bytes - old_bytes, slab)) {
        granule_map_set(base + old_bytes, bytes - old_bytes, NULL);
        pages_resize_in_place(base, bytes, old_bytes);
        resized = false;
    }
    if (!resized && bytes < old_bytes)
        granule_map_set(base + bytes, old_bytes - bytes, slab);
    return resized;
}

static bool move_mapping(struct slab *slab, size_t bytes)
{
    size_t old_bytes = slab->granules * GRANULE_BYTES;
    char *old_base = slab->base;
    void *wanted = find_place(GRANULE_BYTES, bytes, is_free);
    char *target = pages_reserve_to_move(old_base, old_bytes, wanted, bytes, GRANULE_BYTES);
    if (!target)
        return false;
    granule_map_set(old_base, old_bytes, NULL);
    if (granule_map_set(target, bytes, slab) && pages_move(old_base, old_bytes, target, bytes)) {
        slab->base = target;
        return true;
    }
    granule_map_set(target, bytes, NULL);
    pages_unmap(target, bytes);
    granule_map_set(old_base, old_bytes, slab);
    return false;
}

static bool resize_mapping(struct slab *slab, size_t usable, bool may_move)
{
    size_t granules = granules_for(usable);
    if (!resize_mapping_in_place(slab, granules * GRANULE_BYTES) &&
        (!may_move || !move_mapping(slab, granules * GRANULE_BYTES)))
        return false;
    ptrdiff_t change = (ptrdiff_t)granules - (ptrdiff_t)slab->granules;
    blocks_heap.mapped_granules += (size_t)change;
    account_mapped(change * (ptrdiff_t)GRANULE_BYTES);
    slab->granules = granules;
    set_usable(slab, usable);
    enter_young(slab); /* whoever tracks writes looks at where it is now */
    return true;
}

/* In an operation. */
static void *resize(struct slab *slab, size_t size, bool may_move)
{
    if (size > (size_t)PTRDIFF_MAX - GRANULE_BYTES)
        return NULL;
    size_t usable = usable_for(size);
    size_t more = usable > slab->block_bytes ? usable - slab->block_bytes : 0;
    bool mapping = slab->state == SLAB_MAPPING;
    if (slab->is_of_fork)
        return usable == slab->block_bytes ? slab->base : NULL;
    if (more > 0 && ask_collector(BLOCK_ALIGNMENT, more, 0, false) == REFUSE)
        return NULL;
    lock_acquire(&blocks_heap.lock);
    bool resized;
    if (mapping)
        resized = usable >= slab->block_bytes / 2 && resize_mapping(slab, usable, may_move);
    else
        resized = usable < mapping_from_now() && resize_run(slab, usable);
    blocks_heap.used_granules = blocks_heap.runs.used_granules;
    void *block = resized ? slab->base : NULL;
    keep_in_register(block);
    release_and_give_back(granules_for(usable));
    if (block)
        count_taken(more);
    return block;
}

static void *resize_in_operation(struct slab *slab, size_t size, bool may_move)
{
    void *block = NULL;
    if (operation_begin()) {
        block = resize(slab, size, may_move);
        operation_end();
    } else {
        frozen_end();
    }
    return block;
}

void *large_block_resize(struct slab *slab, size_t size)
{
    return resize_in_operation(slab, size, true);
}

bool large_block_resize_in_place(struct slab *slab, size_t size)
{
    return resize_in_operation(slab, size, false) != NULL;
}
