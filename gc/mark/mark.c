/* SPDX-License-Identifier: MIT
 *
 * mark.c: marking.
 *
 * A marker keeps a mark stack of candidate pointers (candidates.h). A heap is larger than any
 * cache, and the processor cannot guess the order of its pointers. So a short queue stands between
 * taking a word from the stack and touching what it refers to; what the second step needs is
 * prefetched at the first:
 *
 *     block --scan--> mark stack --take--> prefetch queue --mark--> block --scan--> ...
 *                                  \ finds the slab, prefetches the mark bit and the block
 *
 * The mark bit is in the slab's record (slab.h), so dead blocks are not touched. The words of a
 * large block do not go on the mark stack: the block goes on a stack of ranges, and is scanned a
 * piece at a time.
 *
 * A pointer to one past the end keeps the block.
 *     small blocks    have an extra byte (gc.c), so such a pointer is an interior one
 *     from a root     keeps the block that the word refers to and the block that ends there
 *     from a block    keeps the block that ends there only where no live block begins. Without the
 *                     extra byte the two neighbours cannot be told apart. Programs that keep such a
 *                     pointer in memory keep one to the block itself beside it
 *
 * Mark stack overflow: a stack that is full is made larger, up to a bound. Candidates that find it
 * full then are dropped. At the end the heap is searched for marked blocks, which are scanned
 * again, until no candidate was dropped.
 *
 * Several markers: helpers.c. Marking beside the program: slices.c. What was followed and may have
 * changed: changed.c. marker.h has a drawing of all of these.
 *
 * Invariants while markers run
 * [stopped bits]      The world is stopped, so which blocks are live does not change: `free`,
 *                     `remote` and `retired` of a slab are only read. Blocks in local free lists
 *                     are free here ([local is free], gc/cycle/collect_steps.c). In a slice of a
 *                     cycle the bits change, and such blocks look live; see slices.c.
 * [marks only grow]   A mark bit goes from 0 to 1, and the marker that changed it scans the
 *                     block. So a block is scanned once. Where several markers may run the change
 *                     is atomic (`shared`). No order is needed: what is scanned was written before
 *                     the stop.
 * [sticky marks]      A minor collection (gc/cycle/generations.h) begins with the marks of all old
 *                     blocks, which nobody follows again but for what may have changed in them
 *                     (mark_changed). Of other slabs than young ones it clears no mark: a live
 *                     block there is old. Which slabs are young a map of granules tells, so that a
 *                     word that names an old block costs a byte of a few pages, and no look at its
 *                     slab's record.
 * [own stack]         A marker's stack, ranges, queue and counters belong to its thread.
 *
 * Sources: Boehm & Weiser 1988; Cher, Hosking, Vitek, "Software prefetching for mark-sweep garbage
 * collection", ASPLOS 2004 (the prefetch queue); Boehm, "Reducing garbage collector cache misses",
 * ISMM 2000.
 */
#include "gc/mark/mark.h"

#include <string.h>

#include "alloc/blocks/blocks.h"
#include "gc/mark/drain.h"
#include "gc/mark/helpers.h"
#include "gc/mark/referent.h"
#include "gc/mark/scan.h"
#include "vm/kernel/process.h"
#include "vm/pages.h"
#include "vm/private_memory.h"

enum { FIRST_STACK_BYTES = 1 << 20 };

struct marking mark;

bool marker_allocate_stack(struct marker *marker, size_t bytes)
{
    uintptr_t *stack = private_memory_map(bytes);
    if (!stack)
        return false;
    size_t depth = stack_depth(marker);
    if (marker->stack) {
        memcpy(stack, marker->stack, depth * sizeof *stack);
        private_memory_unmap(marker->stack, stack_bytes(marker));
    }
    marker->stack = stack;
    marker->top = stack + depth;
    marker->end = stack + bytes / sizeof *stack - SPARE_WORDS;
    return true;
}

bool mark_init(unsigned most_markers, size_t most_stack_bytes)
{
    mark.most_markers = most_markers < MOST_MARKERS ? most_markers : MOST_MARKERS;
    mark.most_stack_bytes = most_stack_bytes;
    mark.markers = private_memory_map(mark.most_markers * sizeof *mark.markers);
    mark.pool = private_memory_map(POOL_WORDS * sizeof *mark.pool);
    if (!mark.markers || !mark.pool)
        return false;
    size_t bytes = most_stack_bytes < FIRST_STACK_BYTES ? most_stack_bytes : FIRST_STACK_BYTES;
    for (unsigned i = 0; i < mark.most_markers; i++) {
        struct marker *marker = &mark.markers[i];
        marker->ranges = private_memory_map(MOST_RANGES * sizeof *marker->ranges);
        if (!marker->ranges || !marker_allocate_stack(marker, bytes))
            return false;
    }
    return true;
}

bool mark_init_minor(void)
{
    return young_map_init(&mark.young);
}

/* Widens the bounds by a slab, and by a byte at either end. The bounds lie among the roots: a bound
 * that was the address of the first block, or the end of the last one, would keep that block. */
void mark_add_to_bounds(const struct slab *slab)
{
    uintptr_t base = (uintptr_t)slab->base - 1;
    uintptr_t end = (uintptr_t)slab->base + slab->granules * GRANULE_BYTES + 1;
    mark.low = base < mark.low ? base : mark.low;
    mark.high = end > mark.high ? end : mark.high;
}

/* The mark bit of a block that is not live is set: no marker looks into it, and in a late sweep
 * nobody takes it for dead ([listed is marked], alloc/blocks/late_sweep.h). */
void mark_clear_marks(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].mark = ~slab_live(slab, i);
    mark_add_to_bounds(slab);
}

static void enter_young_map(void *unused, struct slab *slab)
{
    (void)unused;
    young_map_enter(&mark.young, (uintptr_t)slab->base, slab->granules);
}

bool mark_was_young(uintptr_t address)
{
    return young_map_has(&mark.young, address);
}

/* [sticky marks] */
static void clear_young_marks(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].mark = ~slab_live(slab, i) | *slab_old(slab, i);
    enter_young_map(NULL, slab);
    mark_add_to_bounds(slab);
}

void mark_skip_unreadable(bool only_resident)
{
    mark.skips_unreadable = true;
    mark.only_resident = only_resident;
    if (only_resident)
        mark.memory_file = process_file(PROCESS_MEMORY);
}

bool mark_skips_unreadable(void)
{
    return mark.skips_unreadable;
}

bool mark_reads_in_place(size_t block_bytes)
{
    return !mark.skips_unreadable || !may_lack_pages(block_bytes);
}

/* A block that has a mark already is not followed ([marks only grow]). So what is to be left out is
 * marked here. */
static void skip_small(struct slab *slab, uintptr_t start, uintptr_t end)
{
    uintptr_t base = (uintptr_t)slab->base;
    size_t behind = (end - base + slab->block_bytes - 1) / slab->block_bytes;
    behind = behind < slab->capacity ? behind : slab->capacity;
    for (size_t i = (start - base) / slab->block_bytes; i < behind; i++)
        slab->words[i / SLAB_WORD_BLOCKS].mark |= slab_bit(i);
    mark.skips_small = true;
}

void mark_skip_part(uintptr_t start, uintptr_t end)
{
    while (start < end) {
        struct slab *slab = slab_at((const void *)start);
        uintptr_t part_end = slab ? (uintptr_t)slab->base + slab->granules * GRANULE_BYTES
                                  : round_down(start, GRANULE_BYTES) + GRANULE_BYTES;
        part_end = part_end < end ? part_end : end;
        if (slab && slab->block_bytes < PAGE_BYTES)
            skip_small(slab, start, part_end);
        start = part_end;
    }
}

void mark_tell_suspects(bool tell)
{
    mark.tells_suspects = tell;
}

void mark_set_bounds(void)
{
    bool any = mark.high > mark.low;
    mark.bounds = heap_bounds_of(mark.low, any ? mark.high - mark.low : 0);
}

void mark_begin_roots(void)
{
    mark.skips_unreadable = mark.skips_small = false;
    mark.tells_suspects = mark.defers_roots = false;
    mark.suspect = NULL;
    mark_set_bounds();
}

void mark_make_ready(void)
{
    mark_begin_roots();
    mark.pending_count = 0;
    for (unsigned i = 0; i < mark.most_markers; i++) {
        struct marker *marker = &mark.markers[i];
        marker->top = marker->stack;
        marker->range_count = 0;
        marker->blocks = marker->bytes = 0;
        marker->overflowed = false;
    }
}

/* The step of a full collection that goes over the slabs: visits each slab, unless `visit` is NULL,
 * and enters the young ones into the young map. */
void mark_visit_slabs(void (*visit)(void *unused, struct slab *slab))
{
    mark.is_minor = false;
    mark.low = UINTPTR_MAX;
    mark.high = 0;
    if (visit)
        blocks_each_slab_by_bits(visit, NULL);
    if (mark.young.granules) {
        young_map_begin(&mark.young);
        blocks_each_young(enter_young_map, NULL);
    }
}

void mark_begin(void)
{
    mark_visit_slabs(mark_clear_marks);
    mark_make_ready();
}

void mark_begin_minor(void)
{
    mark.is_minor = true;
    young_map_begin(&mark.young);
    blocks_each_young(clear_young_marks, NULL);
    mark_make_ready();
}

__attribute__((noinline)) uintptr_t *marker_grow_stack(struct marker *marker, uintptr_t *top)
{
    marker->top = top;
    size_t bytes = 2 * stack_bytes(marker);
    if (bytes > mark.most_stack_bytes || !marker_allocate_stack(marker, bytes)) {
        marker->overflowed = true;
        marker->top = marker->end;
    }
    return marker->top;
}

/* Overflow. */

static void scan_marked(void *argument, struct slab *slab)
{
    struct marker *marker = argument;
    for (size_t i = 0; i < slab->capacity; i++) {
        size_t word = i / SLAB_WORD_BLOCKS;
        const struct slab_word *bits = &slab->words[word];
        if (!(bits->mark & ~bits->retired & slab_live(slab, word) & slab_bit(i)))
            continue;
        scan_block(marker, slab_block(slab, i), slab->block_bytes);
        drain_alone(marker);
    }
}

static bool take_overflow(void)
{
    bool any = false;
    for (unsigned i = 0; i < mark.most_markers; i++) {
        any = any || mark.markers[i].overflowed;
        mark.markers[i].overflowed = false;
    }
    return any;
}

void mark_finish(unsigned helpers, struct mark_result *result)
{
    *result = (struct mark_result){
        .markers = 1, .suspect = mark.suspect, .suspect_bytes = mark.suspect_bytes};
    if (helpers > 0)
        result->markers = helpers_drain(helpers);
    else
        drain_alone(&mark.markers[0]);
    while (take_overflow()) {
        result->overflows++;
        blocks_each_slab(scan_marked, &mark.markers[0]);
    }
    for (unsigned i = 0; i < mark.most_markers; i++) {
        result->blocks += mark.markers[i].blocks;
        result->bytes += mark.markers[i].bytes;
    }
}
