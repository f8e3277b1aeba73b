/* SPDX-License-Identifier: MIT
 *
 * generations.c: see generations.h.
 */
#include "gc/cycle/generations.h"

#include "alloc/blocks/blocks.h"
#include "gc/cycle/verify.h"
#include "gc/mark/mark.h"
#include "gc/world/recorder.h"
#include "vm/area.h"
#include "vm/clock.h"
#include "vm/granule_map.h"
#include "vm/pages.h"

static struct {
    bool on;
    bool resting;
    bool marks_are_whole;
    bool in_doubt;
    bool unswept; /* see generations_protect */
    struct dirty_scan scan;
    /* Up to where each segment of the heap's space is tracked, in pages: addresses would be roots.
     */
    uint64_t tracked_pages[AREA_SEGMENTS + 1];
    size_t segment; /* the one that a walk over the ranges has come to */
    struct generations_statistics statistics;
} generations;

void generations_init(enum dirty_provider provider)
{
    dirty_open_by(recorder_userfaultfd);
    generations.on = dirty_open(provider) == DIRTY_ASYNC && mark_init_minor();
    generations.resting = true;
}

bool generations_are_on(void)
{
    return generations.on;
}

bool generations_are_ready(void)
{
    return generations.on && generations.marks_are_whole && !generations.resting;
}

const struct generations_statistics *generations_statistics(void)
{
    return &generations.statistics;
}

/* All memory of the heap, a range at a time. */
static void each_range(blocks_range_visitor *visit, void *argument)
{
    generations.segment = 0;
    blocks_each_range(visit, argument);
}

/* Tracking. */

/* A mapping is young when it is new, and when its pages were moved: [born dirty]. */
static void track_new(void *unused, const char *start, const char *end, const struct slab *mapping)
{
    (void)unused;
    uintptr_t from = (uintptr_t)start, to = (uintptr_t)end;
    if (!mapping) {
        uint64_t *tracked = &generations.tracked_pages[generations.segment++];
        if (*tracked * PAGE_BYTES > from)
            from = *tracked * PAGE_BYTES;
        if (to > from)
            *tracked = to / PAGE_BYTES;
    } else if (!mapping->young && !generations.resting) {
        return;
    }
    if (to > from)
        dirty_track(from, to);
}

void generations_prepare(void)
{
    each_range(track_new, NULL);
    generations.resting = false;
}

static void untrack(void *unused, const char *start, const char *end, const struct slab *mapping)
{
    (void)unused;
    if (!mapping)
        generations.tracked_pages[generations.segment++] = 0;
    dirty_untrack((uintptr_t)start, (uintptr_t)end);
}

void generations_rest(void)
{
    if (generations.resting)
        return;
    each_range(untrack, NULL);
    generations.resting = true;
    generations.marks_are_whole = false;
}

/* A collection. */

typedef void dirty_visitor(uintptr_t start, uintptr_t end);

static void each_dirty_run(void *argument, const char *start, const char *end,
                           const struct slab *mapping)
{
    (void)mapping;
    dirty_visitor *const *visit = argument;
    struct dirty_run run = {(uintptr_t)start, (uintptr_t)end};
    while (dirty_next_run(DIRTY_GENERATIONS, &run)) {
        (*visit)(run.start, run.end);
        run = (struct dirty_run){run.end, (uintptr_t)end};
    }
}

static void each_dirty(dirty_visitor *visit)
{
    each_range(each_dirty_run, &visit);
}

static void look_at_range(void *unused, const char *start, const char *end,
                          const struct slab *mapping)
{
    (void)unused;
    bool told = start == end || dirty_look(&generations.scan, (uintptr_t)start, (uintptr_t)end);
    generations.in_doubt |= !told && !mapping;
}

static void count_dirty(uintptr_t start, uintptr_t end)
{
    generations.statistics.dirty_pages += (end - start) / PAGE_BYTES;
}

bool generations_begin(bool minor)
{
    if (!generations.on || generations.resting)
        return false;
    uint64_t begun_ns = monotonic_ns();
    bool whole = generations.marks_are_whole;
    generations.marks_are_whole = generations.in_doubt = false;
    generations.scan = dirty_begin();
    each_range(look_at_range, NULL);
    each_dirty(count_dirty);
    generations.statistics.looks++;
    generations.statistics.look_ns += monotonic_ns() - begun_ns;
    bool is_told = !generations.in_doubt && blocks_young_are_listed();
    generations.statistics.refused += minor && whole && !is_told;
    return minor && whole && is_told;
}

bool generations_are_in_doubt(void)
{
    return generations.in_doubt;
}

void generations_forget_marks(void)
{
    generations.marks_are_whole = false;
}

static void mark_changed_in_run(uintptr_t start, uintptr_t end)
{
    generations.statistics.rescanned_bytes += mark_changed(start, end);
}

void generations_mark_old(void)
{
    each_dirty(mark_changed_in_run);
    mark_changed_done();
    mark_of_fork();
}

/* [pinned by kernel is dirty] */
void generations_kernel_writes(uintptr_t address)
{
    struct slab *slab = blocks_slab_of((const void *)address);
    bool exact;
    size_t index = slab ? slab_index(slab, (const void *)address, &exact) : 0;
    if (!slab || index >= slab->capacity)
        return;
    uintptr_t block = (uintptr_t)slab_block(slab, index);
    dirty_set(round_down(block, PAGE_BYTES), round_up(block + slab->block_bytes, PAGE_BYTES));
}

/* Protection. */

/* Pages that lie side by side, protected in one go. */
static struct {
    uintptr_t start, end;
} pending;

/* A page is clean only where the kernel says that it is protected: [born dirty]. */
static void protect_pending(void)
{
    if (pending.start < pending.end &&
        dirty_reprotect(&generations.scan, pending.start, pending.end)) {
        dirty_clean(DIRTY_GENERATIONS, pending.start, pending.end);
        verify_cleaned(pending.start, pending.end);
        generations.statistics.protected_pages += (pending.end - pending.start) / PAGE_BYTES;
    }
    pending.start = pending.end = 0;
}

/* The blocks of a slab that have a part of a page. */
struct page_blocks {
    size_t all, old, live;
};

static struct page_blocks blocks_of_page(struct slab *slab, uintptr_t page)
{
    struct page_blocks found = {0};
    uintptr_t base = (uintptr_t)slab->base;
    size_t first = (page - base) / slab->block_bytes;
    size_t behind = (page + PAGE_BYTES - 1 - base) / slab->block_bytes + 1;
    if (behind > slab->capacity)
        behind = slab->capacity;
    for (size_t word = first / SLAB_WORD_BLOCKS; word * SLAB_WORD_BLOCKS < behind; word++) {
        uint64_t within = slab_bits_within(word, first, behind);
        found.all += count_bits(within);
        uint64_t live = slab_live(slab, word), old = *slab_old(slab, word);
        if (generations.unswept)
            live = old = live & slab->words[word].mark;
        found.old += count_bits(within & old);
        found.live += count_bits(within & live);
    }
    return found;
}

bool generations_page_has_old(uintptr_t page)
{
    struct slab *slab = blocks_slab_of((const void *)page);
    return slab && blocks_of_page(slab, page).old > 0;
}

bool generations_page_is_used(uintptr_t page)
{
    struct slab *slab = blocks_slab_of((const void *)page);
    struct page_blocks blocks = slab ? blocks_of_page(slab, page) : (struct page_blocks){0};
    return 2 * blocks.live > blocks.all;
}

/* A page that is mostly free, of a slab from which blocks were taken since the last collection, is
 * likely to be written before the next: its old blocks are read again then, which costs less than a
 * fault. Where that is wrong the next collection protects the page. */
static bool is_worth_protecting(struct slab *slab, uintptr_t page)
{
    struct page_blocks blocks = blocks_of_page(slab, page);
    return blocks.old > 0 && (2 * blocks.live > blocks.all || !mark_was_young(page));
}

static void protect_run(uintptr_t start, uintptr_t end)
{
    while (start < end) {
        struct slab *slab = blocks_slab_of((const void *)start);
        uintptr_t part_end = round_down(start, GRANULE_BYTES) + GRANULE_BYTES;
        part_end = part_end < end ? part_end : end;
        for (uintptr_t page = start; slab && page < part_end; page += PAGE_BYTES) {
            if (!is_worth_protecting(slab, page))
                continue;
            if (page != pending.end) {
                protect_pending();
                pending.start = page;
            }
            pending.end = page + PAGE_BYTES;
        }
        start = part_end;
    }
}

/* Pages that the cycle has protected, whatever lies on them: they cost no more to leave so. The
 * world is stopped, and all that their old blocks point to has its mark. */
static void take_over(uintptr_t start, uintptr_t end)
{
    if (start == end)
        return;
    dirty_clean(DIRTY_GENERATIONS, start, end);
    verify_cleaned(start, end);
}

static void protect_after_cycle(uintptr_t start, uintptr_t end)
{
    for (struct dirty_run run = {start, end}; dirty_next_run(DIRTY_CYCLE, &run);
         run = (struct dirty_run){start, end}) {
        take_over(start, run.start);
        protect_run(run.start, run.end);
        start = run.end;
    }
    take_over(start, end);
}

/* What the bits say of a run is used up before it is cleaned. */
void generations_protect(bool unswept, bool after_cycle)
{
    if (!generations.on || generations.resting)
        return;
    uint64_t begun_ns = monotonic_ns();
    generations.unswept = unswept;
    each_dirty(after_cycle ? protect_after_cycle : protect_run);
    protect_pending();
    generations.unswept = false;
    generations.statistics.protect_ns += monotonic_ns() - begun_ns;
    generations.marks_are_whole = true;
}

void generations_fork_child(void)
{
    if (!generations.on)
        return;
    generations.on = dirty_forked() == DIRTY_ASYNC;
    generations.marks_are_whole = false;
}
