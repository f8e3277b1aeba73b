/* SPDX-License-Identifier: MIT
 *
 * snapshot_cycle.c: see snapshot_cycle.h.
 *
 * The result: struct snapshot_cycle_result, then the mark words of all slabs. Where a slab's begin
 * stands in its record, one more than their index; 0 in a record that is newer than the child.
 */
#include "gc/cycle/snapshot_cycle.h"

#include "alloc/blocks/blocks.h"
#include "gc/cycle/generations.h"
#include "gc/cycle/verify.h"
#include "vm/granule_map.h"
#include "vm/kernel/process.h"
#include "vm/kernel/resident.h"
#include "vm/owner.h"
#include "vm/pages.h"
#include "vm/withheld.h"

/* A fork takes 14 ms for each GiB of pages, and 1 ms of huge ones (docs/measurements/gc.md). */
static const size_t GATHER_LEAST_BYTES = (size_t)64 << 20;

/* A span has the bytes of a huge page. Spans have numbers, since an address here would be a root:
 * first come those of the heap's ranges, then those of the other mappings that the last stop has
 * read. When a range comes or goes the numbers shift, and some spans are passed over. If other
 * memory is mapped in a span's place meanwhile, it is private as well, or the kernel refuses. */
static struct {
    size_t begun; /* the span where this cycle began; the last cycle may have ended before all */
    size_t next;
    bool is_round; /* it has begun at 0 again, and goes on until there */
    bool is_done;
    unsigned refused_heap; /* spans of the heap that were refused in a row */
    unsigned refused_here; /* the same, of the mapping at hand */
    uint64_t made;         /* ever */
} gathering;

/* So many refusals in a row are no accident. After HOPELESS spans of the heap nothing more is
 * tried. After HOPELESS_HERE spans of one mapping of the program, which may have forbidden huge
 * pages there, the rest of this mapping is passed over. (One span alone is refused if a device
 * holds a page of it.) */
enum { HOPELESS = 8, HOPELESS_HERE = 2 };
/* How many spans snapshot_cycle_prepare_some() looks at, at most. */
enum { SPANS_OF_STEP = 32 };

static struct {
    size_t next;  /* blocks_some_slabs */
    size_t words; /* that have places */
} places;
static size_t next_taken; /* blocks_some_slabs */

enum gathered { LEFT_ALONE, MADE, REFUSED };

/* Missing pages are brought in, if they are no more than an eighth of the span. Pages that another
 * process has, too, are left alone: they would be copied. */
static enum gathered gather_span(uintptr_t start)
{
    uintptr_t end = start + HUGE_PAGE_BYTES;
    if (resident_is_huge(start, end) || resident_alone(start, end) < HUGE_PAGE_BYTES / 8 * 7)
        return LEFT_ALONE;
    return pages_make_huge((void *)start) ? MADE : REFUSED;
}

static void count(enum gathered outcome, bool is_heap)
{
    if (outcome == LEFT_ALONE)
        return;
    bool refused = outcome == REFUSED;
    gathering.made += !refused;
    gathering.refused_here = refused ? gathering.refused_here + 1 : 0;
    if (is_heap)
        gathering.refused_heap = refused ? gathering.refused_heap + 1 : 0;
}

/* A walk over the spans. */
struct span_walk {
    size_t spans;    /* of what is behind */
    size_t looks;    /* left */
    bool has_worked; /* it took as long as making a huge page does: that was enough */
};

static void walk_spans(struct span_walk *walk, uintptr_t start, uintptr_t end, bool is_heap)
{
    uintptr_t first = round_up(start, HUGE_PAGE_BYTES);
    size_t before = walk->spans;
    if (first >= end)
        return;
    walk->spans += (end - first) / HUGE_PAGE_BYTES;
    for (; !walk->has_worked && walk->looks > 0 && gathering.next < walk->spans; walk->looks--) {
        size_t span = gathering.next++ - before;
        if (span == 0)
            gathering.refused_here = 0;
        enum gathered outcome = gather_span(first + span * HUGE_PAGE_BYTES);
        walk->has_worked = outcome != LEFT_ALONE;
        count(outcome, is_heap);
        if (!is_heap && gathering.refused_here >= HOPELESS_HERE)
            gathering.next = walk->spans;
    }
}

static void walk_heap_range(void *walk, const char *start, const char *end,
                            const struct slab *mapping)
{
    (void)mapping;
    walk_spans(walk, (uintptr_t)start, (uintptr_t)end, true);
}

/* Memory of the heap is left out: it was walked as ranges, and may have grown since the list was
 * read. Withheld memory (vm/withheld.h) is left out: the child does not get it. */
static bool is_of_program(const struct mapping *mapping)
{
    const struct owner *owner = granule_map_get((const void *)mapping->start);
    return !mapping->shared && mapping->readable && mapping->writable &&
           (!owner || owner->kind == OWNER_RECORDS) &&
           !withheld_has((const void *)mapping->start) &&
           (mapping->name_length == 0 || mapping_is_named(mapping, "[heap]") ||
            mapping_name_begins(mapping, "[anon:"));
}

static size_t walk_all(struct span_walk *walk)
{
    size_t count;
    const struct mapping *mappings = process_last_mappings(&count);
    blocks_each_range(walk_heap_range, walk);
    for (size_t i = 0; i < count; i++)
        if (is_of_program(&mappings[i]))
            walk_spans(walk, mappings[i].start, mappings[i].end, false);
    return walk->spans;
}

/* False: all spans were looked at, or it is hopeless. */
static bool gather(void)
{
    struct span_walk walk = {.looks = SPANS_OF_STEP};
    if (gathering.is_done || gathering.refused_heap >= HOPELESS)
        return false;
    size_t spans = walk_all(&walk);
    bool at_end = gathering.next >= spans;
    if (at_end && !gathering.is_round) {
        gathering.next = 0;
        gathering.is_round = true;
        at_end = false;
    }
    gathering.is_done = gathering.is_round && (at_end || gathering.next >= gathering.begun);
    return true;
}

bool snapshot_cycle_begin(void)
{
    places.next = places.words = 0;
    gathering.begun = gathering.next;
    gathering.is_round = gathering.is_done = false;
    gathering.refused_heap = gathering.refused_here = 0;
    return !generations_are_on() && blocks_used_bytes() >= GATHER_LEAST_BYTES;
}

uint64_t snapshot_cycle_gathered(void)
{
    return gathering.made;
}

static uint64_t *words_of(const struct snapshot *snapshot)
{
    return (uint64_t *)(void *)(snapshot->result + sizeof(struct snapshot_cycle_result));
}

static void give_place(void *unused, struct slab *slab)
{
    (void)unused;
    slab->marks_at = (uint32_t)places.words + 1;
    atomic_store_explicit(&slab->has_freed, false, memory_order_relaxed);
    for (size_t i = 0; i < slab_words(slab); i++)
        *slab_unborn(slab, i) = 0;
    places.words += slab_words(slab);
}

bool snapshot_cycle_prepare_some(bool gathers)
{
    return (gathers && gather()) ||
           blocks_some_slabs(&places.next, SLABS_OF_STEP, give_place, NULL);
}

bool snapshot_cycle_prepare(struct snapshot *snapshot)
{
    blocks_some_slabs(&places.next, SIZE_MAX, give_place, NULL);
    blocks_each_of_fork(give_place, NULL);
    next_taken = 0;
    size_t bytes = places.words * sizeof(uint64_t);
    return places.words < UINT32_MAX &&
           snapshot_prepare(snapshot, sizeof(struct snapshot_cycle_result) + bytes);
}

static void hand_back_slab(void *words, struct slab *slab)
{
    uint64_t *marks = (uint64_t *)words + slab->marks_at - 1;
    for (size_t i = 0; slab->marks_at > 0 && i < slab_words(slab); i++)
        marks[i] = slab->words[i].mark;
}

void snapshot_cycle_hand_back(const struct snapshot *snapshot,
                              const struct snapshot_cycle_result *result)
{
    *(struct snapshot_cycle_result *)(void *)snapshot->result = *result;
    blocks_each_slab_by_bits(hand_back_slab, words_of(snapshot));
}

/* Marks all blocks of a slab without a place. Such a slab was made after places were given and
 * before the first stop. Or it is a block that was made during a fork of the program: nothing marks
 * these newborn (large.c). */
static void mark_newer(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; slab->marks_at == 0 && i < slab_words(slab); i++)
        slab->words[i].mark = ~UINT64_C(0);
}

/* [marks in their place] */
static void take_over_slab(void *words, struct slab *slab)
{
    mark_newer(NULL, slab);
    if (slab->marks_at == 0)
        return;
    const uint64_t *marks = (const uint64_t *)words + slab->marks_at - 1;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].mark = marks[i];
}

bool snapshot_cycle_take_some(const struct snapshot *snapshot, bool rest)
{
    size_t most = rest ? SIZE_MAX : SLABS_OF_STEP;
    return blocks_some_slabs(&next_taken, most, take_over_slab, words_of(snapshot));
}

struct snapshot_cycle_result snapshot_cycle_taken(const struct snapshot *snapshot)
{
    blocks_each_of_fork(take_over_slab, words_of(snapshot));
    verify_snapshot_marks();
    return *(const struct snapshot_cycle_result *)(const void *)snapshot->result;
}

/* Only a free makes a live block one that is not. What was not live has the child's mark. */
static void mark_freed_since_fork(void *unused, struct slab *slab)
{
    (void)unused;
    if (!atomic_load_explicit(&slab->has_freed, memory_order_relaxed))
        return;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].mark |= *slab_unborn(slab, i) | ~slab_live(slab, i);
}

/* [freed is born again], [listed is marked] (alloc/blocks/late_sweep.h) */
void snapshot_cycle_complete(void)
{
    blocks_each_of_fork(mark_newer, NULL);
    if (blocks_have_freed())
        blocks_each_slab(mark_freed_since_fork, NULL);
}
