/* SPDX-License-Identifier: MIT
 *
 * runs.c: see runs.h.
 */
#include "alloc/blocks/runs.h"

#include <string.h>

#include "vm/metadata.h"
#include "vm/granule_map.h"
#include "vm/pages.h"

/* So much may stay free and take memory however small the heap is: 2 MiB. */
enum { RETAIN_LEAST = 32 };

/* Entered for memory that has been committed and not handed out yet. */
static struct owner unused_memory = {OWNER_RECORDS};

void runs_init(struct runs *runs, unsigned retain_percent)
{
    area_init(&runs->area, &unused_memory);
    runs->retain_percent = retain_percent;
    runs->retain_least = RETAIN_LEAST;
}

static void count_used(struct runs *runs, size_t granules)
{
    runs->used_granules += granules;
    size_t scaled = granules * DECAY_GRANULES;
    runs->recent -= scaled < runs->recent ? scaled : runs->recent;
}

static size_t list_of(size_t granules)
{
    return granules <= RUN_LENGTHS ? granules : 0;
}

static void insert(struct runs *runs, struct free_run *run)
{
    struct free_run **list = &runs->by_length[list_of(run->granules)];
    run->previous = NULL;
    run->next = *list;
    if (*list)
        (*list)->previous = run;
    *list = run;
    if (run->granules <= RUN_LENGTHS)
        runs->lengths |= UINT64_C(1) << (run->granules - 1);
    granule_map_set(run->start, GRANULE_BYTES, run);
    granule_map_set(run->start + (run->granules - 1) * GRANULE_BYTES, GRANULE_BYTES, run);
    runs->free_granules += run->granules;
    if (!run->zero)
        runs->dirty_granules += run->granules;
}

static void unlink_run(struct runs *runs, struct free_run *run)
{
    struct free_run **list = &runs->by_length[list_of(run->granules)];
    if (run->previous)
        run->previous->next = run->next;
    else
        *list = run->next;
    if (run->next)
        run->next->previous = run->previous;
    if (!*list && run->granules <= RUN_LENGTHS)
        runs->lengths &= ~(UINT64_C(1) << (run->granules - 1));
    runs->free_granules -= run->granules;
    if (!run->zero)
        runs->dirty_granules -= run->granules;
}

static void drop_record(struct runs *runs, struct free_run *record)
{
    record->owner.kind = OWNER_FREE_RUN;
    record->next = runs->unused_records;
    runs->unused_records = record;
    runs->unused_record_count++;
}

static struct free_run *take_record(struct runs *runs)
{
    struct free_run *record = runs->unused_records;
    runs->unused_records = record->next;
    runs->unused_record_count--;
    return record;
}

static struct free_run *free_run_at(const char *address)
{
    struct owner *owner = granule_map_get(address);
    return owner && owner->kind == OWNER_FREE_RUN ? (struct free_run *)owner : NULL;
}

/* Cuts the first granules off a run that is on no list; the rest goes back on one. */
static void *cut(struct runs *runs, struct free_run *run, size_t granules, bool *zero)
{
    char *start = run->start;
    *zero = run->zero;
    count_used(runs, granules);
    if (run->granules == granules) {
        drop_record(runs, run);
        return start;
    }
    run->start += granules * GRANULE_BYTES;
    run->granules -= granules;
    insert(runs, run);
    return start;
}

static struct free_run *find(const struct runs *runs, size_t granules)
{
    if (granules <= RUN_LENGTHS) {
        uint64_t enough = runs->lengths >> (granules - 1) << (granules - 1);
        if (enough)
            return runs->by_length[__builtin_ctzl(enough) + 1];
    }
    struct free_run *best = NULL;
    for (struct free_run *run = runs->by_length[0]; run; run = run->next)
        if (run->granules >= granules && (!best || run->granules < best->granules))
            best = run;
    return best;
}

/* Entered as memory that was handed out to no one, which it stays. */
void *runs_take_for_records(struct runs *runs)
{
    struct free_run *run = find(runs, 1);
    if (!run)
        return NULL;
    bool zero;
    unlink_run(runs, run);
    char *granule = cut(runs, run, 1, &zero);
    runs->used_granules--;
    granule_map_set(granule, GRANULE_BYTES, &unused_memory);
    return zero ? granule : memset(granule, 0, GRANULE_BYTES);
}

/* When the kernel has no memory left. */
static bool make_records(struct runs *runs)
{
    struct free_run *records = runs_take_for_records(runs);
    for (size_t i = 0; records && i < GRANULE_BYTES / sizeof *records; i++)
        drop_record(runs, &records[i]);
    return records != NULL;
}

/* Every run in use has a record in store for the time it is given back, and one more for a run
 * that is cut: so giving back needs no memory, which a full heap could not get. */
static bool store_records(struct runs *runs)
{
    while (runs->unused_record_count < runs->used_runs + 2) {
        struct free_run *record = metadata_alloc(sizeof *record);
        if (record)
            drop_record(runs, record);
        else if (!make_records(runs))
            return false;
    }
    return true;
}

/* Grows the heap, by less when it ends in a free run. */
static void *extend(struct runs *runs, size_t granules, bool *zero)
{
    struct area *area = &runs->area;
    struct free_run *last = area->brk ? free_run_at(area->brk - 1) : NULL;
    if (last) {
        char *end = area->brk;
        size_t more = (granules - last->granules) * GRANULE_BYTES;
        char *fresh = area_extend(area, more);
        if (fresh == end) {
            char *start = last->start;
            *zero = last->zero;
            unlink_run(runs, last);
            drop_record(runs, last);
            count_used(runs, granules);
            return start;
        }
        if (fresh)
            area_retract(area, more);
    }
    char *start = area_extend(area, granules * GRANULE_BYTES);
    if (start)
        count_used(runs, granules);
    *zero = true;
    return start;
}

static void *take(struct runs *runs, size_t granules, bool *zero)
{
    struct free_run *run = find(runs, granules);
    if (!run && runs->dirty_granules > 0 && runs->free_granules / 2 >= granules) {
        runs_trim(runs); /* what is merged by that may be long enough */
        run = find(runs, granules);
    }
    if (!run)
        return extend(runs, granules, zero);
    unlink_run(runs, run);
    return cut(runs, run, granules, zero);
}

void *runs_take(struct runs *runs, size_t granules, bool *zero)
{
    void *start = store_records(runs) ? take(runs, granules, zero) : NULL;
    runs->used_runs += start != NULL;
    return start;
}

bool runs_take_at(struct runs *runs, char *start, size_t granules, bool *zero)
{
    struct free_run *run = free_run_at(start);
    if (!run || run->start != start || run->granules < granules)
        return false;
    unlink_run(runs, run);
    cut(runs, run, granules, zero);
    return true;
}

/* Takes a neighbour into a run that is on no list. */
static void absorb(struct runs *runs, struct free_run *run, struct free_run *neighbour)
{
    unlink_run(runs, neighbour);
    if (neighbour->start < run->start)
        run->start = neighbour->start;
    run->granules += neighbour->granules;
    run->zero = run->zero && neighbour->zero;
    drop_record(runs, neighbour);
}

static void merge_and_insert(struct runs *runs, struct free_run *run)
{
    struct free_run *before = free_run_at(run->start - 1);
    if (before && before->zero == run->zero)
        absorb(runs, run, before);
    struct free_run *behind = free_run_at(run->start + run->granules * GRANULE_BYTES);
    if (behind && behind->zero == run->zero)
        absorb(runs, run, behind);
    insert(runs, run);
}

static size_t bound(const struct runs *runs)
{
    size_t share = runs->used_granules * runs->retain_percent / 100;
    size_t recent = runs->recent / DECAY_GRANULES;
    size_t larger = share > recent ? share : recent;
    size_t least =
        runs->retain_asked > runs->retain_least ? runs->retain_asked : runs->retain_least;
    return larger > least ? larger : least;
}

static void count_unused(struct runs *runs, size_t granules)
{
    size_t decaying = granules < DECAY_GRANULES ? granules : DECAY_GRANULES;
    runs->used_granules -= granules;
    runs->used_runs--;
    runs->recent += granules * DECAY_GRANULES;
    runs->recent -= runs->recent * decaying / DECAY_GRANULES;
}

static struct free_run *any_dirty(const struct runs *runs)
{
    for (size_t list = 0; list <= RUN_LENGTHS; list++)
        for (struct free_run *run = runs->by_length[list]; run; run = run->next)
            if (!run->zero)
                return run;
    return NULL;
}

/* Bytes given back; 0: the kernel would not take them. */
static size_t discard(struct runs *runs, struct free_run *run)
{
    size_t bytes = run->granules * GRANULE_BYTES;
    if (!pages_discard(run->start, bytes))
        return 0;
    unlink_run(runs, run);
    run->zero = true;
    merge_and_insert(runs, run);
    return bytes;
}

void runs_give(struct runs *runs, char *start, size_t granules, bool zero)
{
    count_unused(runs, granules);
    if (!zero && runs->dirty_granules + granules > bound(runs))
        zero = pages_discard(start, granules * GRANULE_BYTES);
    granule_map_set(start, granules * GRANULE_BYTES, &unused_memory);
    struct free_run *run = take_record(runs);
    run->start = start;
    run->granules = granules;
    run->zero = zero;
    merge_and_insert(runs, run);
    if (runs->dirty_granules > bound(runs)) /* which has come down since they were given back */
        discard(runs, any_dirty(runs));
}

size_t runs_trim(struct runs *runs)
{
    size_t bytes = 0, more;
    while (runs->dirty_granules > 0 && (more = discard(runs, any_dirty(runs))) > 0)
        bytes += more;
    return bytes;
}

bool runs_give_tail(struct runs *runs, char *start, size_t granules)
{
    if (!store_records(runs))
        return false;
    runs->used_runs++; /* what was one run is two from here on */
    runs_give(runs, start, granules, false);
    return true;
}

static bool run_is_valid(const struct free_run *run, size_t list)
{
    const char *end = run->start + run->granules * GRANULE_BYTES;
    const struct free_run *behind = free_run_at(end);
    return run->granules > 0 && list_of(run->granules) == list && free_run_at(run->start) == run &&
           free_run_at(end - 1) == run && !(behind && behind->zero == run->zero) &&
           (!run->next || run->next->previous == run);
}

bool runs_are_valid(const struct runs *runs)
{
    size_t granules = 0, dirty = 0;
    for (size_t list = 0; list <= RUN_LENGTHS; list++) {
        bool any = list > 0 && (runs->lengths >> (list - 1) & 1);
        if (list > 0 && any != (runs->by_length[list] != NULL))
            return false;
        for (const struct free_run *run = runs->by_length[list]; run; run = run->next) {
            if (!run_is_valid(run, list))
                return false;
            granules += run->granules;
            dirty += run->zero ? 0 : run->granules;
        }
    }
    return granules == runs->free_granules && dirty == runs->dirty_granules;
}
