/* SPDX-License-Identifier: MIT
 *
 * runs.c: see runs.h.
 */
#include "alloc/blocks/runs.h"

#include <string.h>

#include "vm/metadata.h"
#include "vm/granule_map.h"
#include "vm/pages.h"

/* Entered for memory that has been committed and not handed out yet. */
static struct owner unused_memory = {OWNER_RECORDS};

void runs_init(struct runs *runs, unsigned retain_percent, uint64_t (*now_ns)(void))
{
    area_init(&runs->area, &unused_memory);
    decay_init(&runs->decay, retain_percent);
    runs->now_ns = now_ns;
}

static size_t granules_between(const char *start, const char *end)
{
    return (size_t)(end - start) / GRANULE_BYTES;
}

static char *end_of(const struct free_run *run)
{
    return run->start + run->granules * GRANULE_BYTES;
}

/* Bins. */

static size_t bin_of(size_t granules)
{
    if (granules <= RUN_LENGTHS)
        return granules - 1;
    size_t log2 = 63 - (size_t)__builtin_clzl(granules);
    size_t bin = RUN_LENGTHS + 4 * (log2 - 6) + (granules >> (log2 - 2) & 3);
    return bin < RUN_BINS ? bin : RUN_BINS - 1;
}

static struct run_bins *bins_for(struct runs *runs, const struct free_run *run)
{
    return run->dirty > 0 ? &runs->dirty : &runs->zero;
}

static void insert(struct runs *runs, struct free_run *run)
{
    struct run_bins *bins = bins_for(runs, run);
    size_t bin = bin_of(run->granules);
    struct free_run **list = &bins->by_length[bin];
    run->previous = NULL;
    run->next = *list;
    if (*list)
        (*list)->previous = run;
    *list = run;
    bins->filled[bin / 64] |= UINT64_C(1) << bin % 64;
    granule_map_set(run->start, GRANULE_BYTES, run);
    granule_map_set(end_of(run) - GRANULE_BYTES, GRANULE_BYTES, run);
    runs->free_granules += run->granules;
    runs->dirty_granules += run->dirty;
}

static void unlink_run(struct runs *runs, struct free_run *run)
{
    struct run_bins *bins = bins_for(runs, run);
    size_t bin = bin_of(run->granules);
    struct free_run **list = &bins->by_length[bin];
    if (run->previous)
        run->previous->next = run->next;
    else
        *list = run->next;
    if (run->next)
        run->next->previous = run->previous;
    if (!*list)
        bins->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    runs->free_granules -= run->granules;
    runs->dirty_granules -= run->dirty;
}

/* The first bin from `from` on that is not empty; RUN_BINS: there is none. */
static size_t filled_bin(const struct run_bins *bins, size_t from)
{
    for (size_t word = from / 64; word < RUN_BIN_WORDS; word++) {
        uint64_t filled = bins->filled[word];
        if (word == from / 64)
            filled = filled >> from % 64 << from % 64;
        if (filled)
            return word * 64 + (size_t)__builtin_ctzl(filled);
    }
    return RUN_BINS;
}

/* The shortest that is long enough. Of a bin of several lengths some may be too short. */
static struct free_run *find_in(const struct run_bins *bins, size_t granules)
{
    struct free_run *best = NULL;
    for (size_t bin = filled_bin(bins, bin_of(granules)); bin < RUN_BINS && !best;
         bin = filled_bin(bins, bin + 1)) {
        if (bin < RUN_LENGTHS)
            return bins->by_length[bin];
        for (struct free_run *run = bins->by_length[bin]; run; run = run->next)
            if (run->granules >= granules && (!best || run->granules < best->granules))
                best = run;
    }
    return best;
}

static struct free_run *find(const struct runs *runs, size_t granules, enum run_wish wish)
{
    const struct run_bins *first = wish == RUN_ZERO ? &runs->zero : &runs->dirty;
    const struct run_bins *second = wish == RUN_ZERO ? &runs->dirty : &runs->zero;
    struct free_run *run = find_in(first, granules);
    return run ? run : find_in(second, granules);
}

/* Records. */

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

/* Hulls. */

/* The part of the hull in [start, end). */
static struct stretch hull_in(const struct free_run *run, char *start, char *end)
{
    return (struct stretch){start > run->hull ? start : run->hull,
                            end < run->hull_end ? end : run->hull_end};
}

static size_t granules_of(struct stretch stretch)
{
    return is_empty(stretch) ? 0 : granules_between(stretch.start, stretch.end);
}

/* Makes the hull what is left of it in [start, end). Contents are taken to be evenly spread. */
static void clip_hull(struct free_run *run, char *start, char *end)
{
    size_t hull = granules_between(run->hull, run->hull_end);
    struct stretch rest = hull_in(run, start, end);
    size_t left = granules_of(rest);
    if (left == 0 || hull == 0) {
        run->hull = run->hull_end = start;
        run->dirty = 0;
        return;
    }
    run->hull = rest.start;
    run->hull_end = rest.end;
    run->dirty = (run->dirty * left + hull - 1) / hull;
}

static void join_hull(struct free_run *run, const struct free_run *other)
{
    if (other->dirty == 0)
        return;
    if (run->dirty == 0) {
        run->hull = other->hull;
        run->hull_end = other->hull_end;
    } else {
        run->hull = other->hull < run->hull ? other->hull : run->hull;
        run->hull_end = other->hull_end > run->hull_end ? other->hull_end : run->hull_end;
    }
    run->dirty += other->dirty;
}

/* Merging. */

/* Takes a neighbour into a run that is on no list. */
static void absorb(struct runs *runs, struct free_run *run, struct free_run *neighbour)
{
    unlink_run(runs, neighbour);
    if (neighbour->start < run->start)
        run->start = neighbour->start;
    run->granules += neighbour->granules;
    join_hull(run, neighbour);
    drop_record(runs, neighbour);
}

static void merge_and_insert(struct runs *runs, struct free_run *run)
{
    struct free_run *before = free_run_at(run->start - 1);
    if (before)
        absorb(runs, run, before);
    struct free_run *behind = free_run_at(end_of(run));
    if (behind)
        absorb(runs, run, behind);
    insert(runs, run);
}

/* Taking. */

/* Whether to take from a run's end: the wish is for the side with more contents, or with less. */
static bool wants_end(const struct free_run *run, size_t granules, enum run_wish wish)
{
    char *end = end_of(run);
    size_t in_front = granules_of(hull_in(run, run->start, run->start + granules * GRANULE_BYTES));
    size_t at_end = granules_of(hull_in(run, end - granules * GRANULE_BYTES, end));
    return wish == RUN_ZERO ? at_end < in_front : at_end > in_front;
}

/* Cuts granules off a run that is on no list, from the front or from the end; the rest goes back on
 * one. */
static void *cut(struct runs *runs, struct free_run *run, size_t granules, bool at_end,
                 struct stretch *contents)
{
    size_t bytes = granules * GRANULE_BYTES;
    char *end = end_of(run);
    char *start = at_end ? end - bytes : run->start;
    *contents = hull_in(run, start, start + bytes);
    runs->used_granules += granules;
    decay_take(&runs->decay, granules, granules - granules_of(*contents));
    if (run->granules == granules) {
        drop_record(runs, run);
        return start;
    }
    run->start = at_end ? run->start : start + bytes;
    run->granules -= granules;
    clip_hull(run, run->start, end_of(run));
    insert(runs, run);
    return start;
}

/* Entered as memory that was handed out to no one, which it stays. */
void *runs_take_for_records(struct runs *runs)
{
    struct free_run *run = find(runs, 1, RUN_ZERO);
    if (!run)
        return NULL;
    struct stretch contents;
    unlink_run(runs, run);
    char *granule = cut(runs, run, 1, wants_end(run, 1, RUN_ZERO), &contents);
    runs->used_granules--;
    granule_map_set(granule, GRANULE_BYTES, &unused_memory);
    return is_empty(contents) ? granule : memset(granule, 0, GRANULE_BYTES);
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

static void count_fresh(struct runs *runs, size_t granules, size_t fresh)
{
    runs->used_granules += granules;
    decay_take(&runs->decay, granules, fresh);
}

/* Grows the heap, by less when it ends in a free run. */
static void *extend(struct runs *runs, size_t granules, struct stretch *contents)
{
    struct area *area = &runs->area;
    struct free_run *last = area->brk ? free_run_at(area->brk - 1) : NULL;
    if (last && last->granules < granules) {
        char *end = area->brk;
        size_t more = (granules - last->granules) * GRANULE_BYTES;
        char *fresh = area_extend(area, more);
        if (fresh == end) {
            char *start = last->start;
            size_t dirty = last->dirty;
            *contents = (struct stretch){last->hull, last->hull_end};
            unlink_run(runs, last);
            drop_record(runs, last);
            count_fresh(runs, granules, granules - dirty);
            return start;
        }
        if (fresh)
            area_retract(area, more);
    }
    char *start = area_extend(area, granules * GRANULE_BYTES);
    if (start)
        count_fresh(runs, granules, granules);
    *contents = (struct stretch){start, start};
    return start;
}

/* Grows the heap by an aligned huge page and what lies before it. This is free memory without
 * contents, as any that was never handed out, though the first write to the huge page brings all of
 * it. False: it could not be had. */
static bool grow_by_huge_page(struct runs *runs)
{
    struct area *area = &runs->area;
    const size_t bytes = HUGE_GRANULES * GRANULE_BYTES;
    char *end = area->brk, *huge = (char *)round_up((uintptr_t)end, bytes);
    size_t more = (size_t)(huge - end) + bytes;
    char *fresh = area_extend(area, more);
    if (fresh != end) {
        if (fresh)
            area_retract(area, more);
        return false;
    }
    pages_allow_huge(huge, bytes, true);
    struct free_run *run = take_record(runs);
    run->start = run->hull = run->hull_end = end;
    run->granules = more / GRANULE_BYTES;
    run->dirty = 0;
    merge_and_insert(runs, run);
    return true;
}

/* Whether the heap is to grow by a huge page for a run. In a large heap a huge page that stays
 * mostly unused weighs little. */
static bool grows_by_huge_pages(const struct runs *runs, size_t granules, enum run_wish wish)
{
    return runs->huge_from > 0 && runs->used_granules >= runs->huge_from && wish == RUN_ANY &&
           granules <= HUGE_GRANULES / 8;
}

void *runs_take(struct runs *runs, size_t granules, enum run_wish wish, struct stretch *contents)
{
    if (!store_records(runs))
        return NULL;
    struct free_run *run = find(runs, granules, wish);
    if (!run && grows_by_huge_pages(runs, granules, wish) && grow_by_huge_page(runs))
        run = find(runs, granules, wish);
    void *start;
    if (run) {
        unlink_run(runs, run);
        start = cut(runs, run, granules, wants_end(run, granules, wish), contents);
    } else {
        start = extend(runs, granules, contents);
    }
    runs->used_runs += start != NULL;
    return start;
}

bool runs_take_at(struct runs *runs, char *start, size_t granules)
{
    struct stretch contents;
    struct free_run *run = free_run_at(start);
    if (!run || run->start != start || run->granules < granules)
        return false;
    unlink_run(runs, run);
    cut(runs, run, granules, false, &contents);
    return true;
}

/* Giving. */

void runs_give(struct runs *runs, char *start, size_t granules, bool zero)
{
    runs->used_granules -= granules;
    runs->used_runs--;
    decay_give(&runs->decay, granules);
    granule_map_set(start, granules * GRANULE_BYTES, &unused_memory);
    struct free_run *run = take_record(runs);
    run->start = start;
    run->granules = granules;
    run->hull = start;
    run->hull_end = zero ? start : start + granules * GRANULE_BYTES;
    run->dirty = zero ? 0 : granules;
    merge_and_insert(runs, run);
}

bool runs_give_tail(struct runs *runs, char *start, size_t granules)
{
    if (!store_records(runs))
        return false;
    runs->used_runs++; /* what was one run is two from here on */
    runs_give(runs, start, granules, false);
    return true;
}

/* Contents go. */

/* The first dirty run of the longest bin below one. The longest first: fewest calls, and the least
 * likely to be wanted as it is. */
static struct free_run *dirty_below(const struct runs *runs, size_t bin)
{
    for (size_t word = (bin + 63) / 64; word-- > 0;) {
        uint64_t filled = runs->dirty.filled[word];
        if (bin - word * 64 < 64)
            filled &= (UINT64_C(1) << (bin - word * 64)) - 1;
        if (filled)
            return runs->dirty.by_length[word * 64 + 63 - (size_t)__builtin_clzll(filled)];
    }
    return NULL;
}

static struct free_run *longest_dirty(const struct runs *runs)
{
    return dirty_below(runs, RUN_BINS);
}

/* The one to try after a run, before that is changed. */
static struct free_run *dirty_after(const struct runs *runs, const struct free_run *run)
{
    return run->next ? run->next : dirty_below(runs, bin_of(run->granules));
}

/* No huge page is made again where [start, end) touches one: it would bring back what is given back
 * there. Rounded out to whole ones, so that mappings stay few; what else lies there is the window's
 * too. */
static void break_huge_pages(char *start, char *end)
{
    const size_t bytes = HUGE_GRANULES * GRANULE_BYTES;
    char *first = (char *)round_down((uintptr_t)start, bytes);
    pages_allow_huge(first, round_up((size_t)(end - first), bytes), false);
}

static bool discard_pages(const struct runs *runs, char *start, size_t bytes)
{
    if (runs->huge_from > 0)
        break_huge_pages(start, start + bytes);
    return pages_discard(start, bytes);
}

/* Gives back the end of a hull, or its start; returns granules. 0: the kernel would take neither,
 * as it does where a page is locked. */
static size_t discard(struct runs *runs, struct free_run *run, size_t most)
{
    size_t hull = granules_between(run->hull, run->hull_end);
    size_t granules = hull < most ? hull : most, dirty = run->dirty;
    size_t bytes = granules * GRANULE_BYTES;
    char *from = run->hull, *to = run->hull_end - bytes; /* what stays of it */
    if (!discard_pages(runs, to, bytes)) {
        if (granules == hull || !discard_pages(runs, from, bytes))
            return 0;
        from += bytes;
        to = run->hull_end;
    }
    unlink_run(runs, run);
    clip_hull(run, from, to);
    insert(runs, run);
    decay_discard(&runs->decay, dirty - run->dirty);
    return granules;
}

bool runs_have_surplus(struct runs *runs)
{
    if (runs->dirty_granules <= runs->decay.least)
        return false;
    decay_until(&runs->decay, runs->now_ns());
    return runs->dirty_granules > decay_bound(&runs->decay, runs->used_granules);
}

/* A run whose contents the kernel refuses to take does not keep the others from being tried. Where
 * all memory is locked not many are tried. */
size_t runs_give_back_some(struct runs *runs)
{
    enum { MOST_TRIES = 4 };
    struct free_run *run = runs_have_surplus(runs) ? longest_dirty(runs) : NULL;
    for (int tries = 0; run && tries < MOST_TRIES; tries++) {
        struct free_run *next = dirty_after(runs, run);
        size_t granules = discard(runs, run, SURPLUS_STEP);
        if (granules > 0)
            return granules;
        run = next;
    }
    return 0;
}

/* Whole, or what can be in steps. */
static size_t discard_all(struct runs *runs, struct free_run *run)
{
    size_t granules = discard(runs, run, SIZE_MAX), step = granules == 0;
    while (step > 0) {
        step = run->dirty > 0 ? discard(runs, run, SURPLUS_STEP) : 0;
        granules += step;
    }
    return granules;
}

size_t runs_trim(struct runs *runs)
{
    size_t granules = 0;
    for (struct free_run *run = longest_dirty(runs), *next; run; run = next) {
        next = dirty_after(runs, run);
        granules += discard_all(runs, run);
    }
    return granules * GRANULE_BYTES;
}

static bool run_is_valid(const struct free_run *run, size_t bin, bool dirty)
{
    const char *end = end_of(run);
    return run->granules > 0 && bin_of(run->granules) == bin && free_run_at(run->start) == run &&
           free_run_at(end - 1) == run && !free_run_at(end) && (run->dirty > 0) == dirty &&
           (run->hull < run->hull_end) == dirty && run->start <= run->hull &&
           run->hull_end <= end && run->dirty <= granules_between(run->hull, run->hull_end) &&
           (!run->next || run->next->previous == run);
}

static bool bins_are_valid(const struct run_bins *bins, bool dirty, size_t *granules,
                           size_t *dirty_granules)
{
    for (size_t bin = 0; bin < RUN_BINS; bin++) {
        bool filled = bins->filled[bin / 64] >> bin % 64 & 1;
        if (filled != (bins->by_length[bin] != NULL))
            return false;
        for (const struct free_run *run = bins->by_length[bin]; run; run = run->next) {
            if (!run_is_valid(run, bin, dirty))
                return false;
            *granules += run->granules;
            *dirty_granules += run->dirty;
        }
    }
    return true;
}

bool runs_are_valid(const struct runs *runs)
{
    size_t granules = 0, dirty = 0;
    return bins_are_valid(&runs->zero, false, &granules, &dirty) &&
           bins_are_valid(&runs->dirty, true, &granules, &dirty) &&
           granules == runs->free_granules && dirty == runs->dirty_granules;
}
