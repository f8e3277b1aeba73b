/* SPDX-License-Identifier: MIT
 *
 * records.c: the records of slabs and thread heaps.
 *
 * They lie apart from the blocks and close together: records of one size edge to edge in an area
 * of their own, so that a sweep or a walk over all of them reads memory in order. A record is
 * never given back, but used again; one that is not in use has capacity 0. Their areas are
 * entered in the granule map as memory that no block lies in. (The record of a block that is made
 * during a fork stands beside the block, and goes with it: large.c.)
 *
 * When the kernel refuses memory for records, a free granule of the heap becomes records. A heap
 * that has all memory there is needs that when it goes over to blocks of another size.
 */
#include "alloc/blocks/records.h"

#include <string.h>

#include "alloc/blocks/late_sweep.h"
#include "vm/freeze.h"
#include "vm/granule_map.h"
#include "vm/pages.h"

static struct owner records_memory = {OWNER_RECORDS};

bool enter_private_memory(void *start, size_t bytes)
{
    return granule_map_set(start, bytes, &records_memory);
}

void records_init(void)
{
    const size_t bytes[RECORD_KINDS] = {
        [RECORD_FEW_WORDS] = slab_record_bytes(SLAB_FEW_WORDS, blocks_heap.rows),
        [RECORD_ALL_WORDS] = slab_record_bytes(SLAB_MAX_WORDS, blocks_heap.rows),
        [RECORD_THREAD_HEAP] = sizeof(struct thread_heap),
    };
    for (int kind = 0; kind < RECORD_KINDS; kind++) {
        area_init(&blocks_heap.records[kind].area, &records_memory);
        blocks_heap.records[kind].record_bytes = round_up(bytes[kind], 64);
    }
}

static void put_unused(struct record_pool *pool, struct slab *slab)
{
    slab->next = pool->unused;
    pool->unused = slab;
}

static size_t records_in_granule(const struct record_pool *pool)
{
    return (GRANULE_BYTES - sizeof(struct record_granule)) / pool->record_bytes;
}

static struct slab *record_in_granule(const struct record_pool *pool,
                                      struct record_granule *granule, size_t index)
{
    return (struct slab *)((char *)(granule + 1) + index * pool->record_bytes);
}

static void make_records(struct record_pool *pool)
{
    struct record_granule *granule = runs_take_for_records(&blocks_heap.runs);
    if (!granule)
        return;
    granule->next = pool->granules;
    pool->granules = granule;
    for (size_t i = records_in_granule(pool); i-- > 0;)
        put_unused(pool, record_in_granule(pool, granule, i));
}

static struct slab *take_record(struct record_pool *pool)
{
    if (!pool->unused) {
        struct slab *slab = area_extend(&pool->area, pool->record_bytes);
        if (slab)
            return slab;
        make_records(pool);
    }
    struct slab *slab = pool->unused;
    if (slab)
        pool->unused = slab->next;
    return slab;
}

static void mark_newborn(struct slab *slab, size_t words)
{
    for (size_t i = 0; i < words; i++)
        slab->words[i].mark = *slab_unborn(slab, i) = ~UINT64_C(0);
}

/* What others may still need of the record's last use stays: few_words by [any word], `queued` and
 * what follows it by [queue is a hint]. */
static void clear_record(struct slab *slab, enum record_kind kind)
{
    size_t from = offsetof(struct slab, has_pins), to = offsetof(struct slab, queued);
    memset(slab, 0, offsetof(struct slab, few_words));
    slab->few_words = kind == RECORD_FEW_WORDS;
    memset((char *)slab + from, 0, to - from);
}

struct slab *new_slab_record(size_t words)
{
    enum record_kind kind = words <= SLAB_FEW_WORDS ? RECORD_FEW_WORDS : RECORD_ALL_WORDS;
    struct slab *slab = take_record(&blocks_heap.records[kind]);
    if (slab) {
        clear_record(slab, kind);
        memset(slab->words, 0, words * sizeof slab->words[0]);
        say_swept(slab);
        for (unsigned row = 0; row < blocks_heap.rows; row++)
            memset(slab_pinned(slab, row * slab_record_words(slab)), 0,
                   words * sizeof *slab_pinned(slab, 0));
        if (blocks_heap.marks_newborn)
            mark_newborn(slab, words);
    }
    return slab;
}

void blocks_mark_newborn(bool mark)
{
    blocks_heap.marks_newborn = mark;
}

void drop_slab_record(struct slab *slab)
{
    struct record_pool *pool =
        &blocks_heap.records[slab->few_words ? RECORD_FEW_WORDS : RECORD_ALL_WORDS];
    slab->capacity = 0;
    slab->state = SLAB_UNUSED;
    atomic_store_explicit(&slab->thread_heap, NULL, memory_order_relaxed);
    put_unused(pool, slab);
}

struct thread_heap *new_thread_heap_record(void)
{
    struct record_pool *pool = &blocks_heap.records[RECORD_THREAD_HEAP];
    return area_extend(&pool->area, pool->record_bytes);
}

void each_thread_heap(void (*visit)(void *argument, struct thread_heap *heap), void *argument)
{
    struct segment segment;
    const struct record_pool *pool = &blocks_heap.records[RECORD_THREAD_HEAP];
    for (size_t i = 0; area_segment(&pool->area, i, &segment); i++)
        for (char *record = segment.start; record < segment.end; record += pool->record_bytes)
            visit(argument, (struct thread_heap *)record);
}

struct slab_visit {
    void (*visit)(void *argument, struct slab *slab);
    void *argument;
    bool unused_too;
    bool prefetches; /* what the visitor looks at is fetched beforehand */
};

static void visit_record(const struct slab_visit *to, struct slab *slab)
{
    if (slab->capacity > 0 || to->unused_too)
        to->visit(to->argument, slab);
}

/* All bits of a slab whose record's first lines are there. Row 0 holds pins, which few slabs have.
 */
static void prefetch_bits(struct slab *slab)
{
    enum { LINE_BYTES = 64 };
    size_t words = slab_words(slab);
    for (size_t i = 0; i < words; i += LINE_BYTES / sizeof slab->words[0])
        __builtin_prefetch(&slab->words[i], 1);
    for (unsigned row = 1; row < blocks_heap.rows; row++)
        for (size_t i = 0; i < words; i += LINE_BYTES / sizeof(uint64_t))
            __builtin_prefetch(slab_pinned(slab, row * slab_record_words(slab)) + i, 1);
}

static void each_in_segment(const struct segment *segment, size_t record_bytes,
                            const struct slab_visit *to)
{
    char *record = segment->start;
    for (; record + record_bytes < segment->end; record += record_bytes) {
        if (to->prefetches) {
            prefetch_bits((struct slab *)(record + record_bytes));
            __builtin_prefetch(record + 2 * record_bytes);
        }
        visit_record(to, (struct slab *)record);
    }
    if (record < (char *)segment->end)
        visit_record(to, (struct slab *)record);
}

/* The records are numbered: those of few words before the others, each kind's area before the
 * granules of the heap that became records. A new record pushes up the numbers of those behind it.
 * So `next` may name a record that was visited already, but none is passed over. */
struct record_part {
    const struct slab_visit *to;
    size_t next, left, seen;
};

static void visit_part(struct record_part *part, char *start, size_t records, size_t record_bytes)
{
    size_t first = part->next - part->seen;
    bool begins_here = part->next >= part->seen && first < records;
    part->seen += records;
    if (!begins_here || part->left == 0)
        return;
    size_t count = records - first < part->left ? records - first : part->left;
    char *from = start + first * record_bytes;
    const struct segment segment = {from, from + count * record_bytes};
    each_in_segment(&segment, record_bytes, part->to);
    part->next += count;
    part->left -= count;
}

static void visit_part_of_pool(struct record_part *part, const struct record_pool *pool)
{
    struct segment segment;
    for (size_t i = 0; area_segment(&pool->area, i, &segment); i++)
        visit_part(part, segment.start,
                   (size_t)((char *)segment.end - (char *)segment.start) / pool->record_bytes,
                   pool->record_bytes);
    for (struct record_granule *granule = pool->granules; granule; granule = granule->next)
        visit_part(part, (char *)(granule + 1), records_in_granule(pool), pool->record_bytes);
}

/* False: there are no more. */
static bool visit_some(const struct slab_visit *to, size_t *next, size_t most)
{
    struct record_part part = {to, *next, most, 0};
    visit_part_of_pool(&part, &blocks_heap.records[RECORD_FEW_WORDS]);
    visit_part_of_pool(&part, &blocks_heap.records[RECORD_ALL_WORDS]);
    *next = part.next;
    return part.next < part.seen;
}

static void visit_all(const struct slab_visit *to)
{
    size_t next = 0;
    visit_some(to, &next, SIZE_MAX);
}

bool blocks_some_slabs(size_t *next, size_t most, void (*visit)(void *argument, struct slab *slab),
                       void *argument)
{
    const struct slab_visit to = {visit, argument, .prefetches = true};
    return visit_some(&to, next, most);
}

void each_slab_record(void (*visit)(void *argument, struct slab *slab), void *argument)
{
    const struct slab_visit to = {visit, argument, .unused_too = true};
    visit_all(&to);
}

static void each_in_use(const struct slab_visit *to)
{
    visit_all(to);
    for (struct slab *slab = blocks_heap.fork_slabs, *next; slab; slab = next) {
        next = slab->next; /* the visitor may free the block, and the record with it */
        to->visit(to->argument, slab);
    }
}

void blocks_each_slab(void (*visit)(void *argument, struct slab *slab), void *argument)
{
    const struct slab_visit to = {visit, argument, .unused_too = false};
    each_in_use(&to);
}

bool blocks_each_slab_at_exit(void (*visit)(void *argument, struct slab *slab), void *argument)
{
    if (lock_is_own(&blocks_heap.lock))
        return false;
    if (!lock_enter(&blocks_heap.lock)) {
        frozen_end();
        return false;
    }
    blocks_each_slab(visit, argument);
    lock_release(&blocks_heap.lock);
    return true;
}

void blocks_each_slab_by_bits(void (*visit)(void *argument, struct slab *slab), void *argument)
{
    const struct slab_visit to = {visit, argument, .prefetches = true};
    each_in_use(&to);
}
