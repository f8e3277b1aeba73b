/* SPDX-License-Identifier: MIT
 *
 * concurrent.c: see concurrent.h.
 */
#include "gc/cycle/concurrent.h"

#include <stdatomic.h>

#include "alloc/blocks/blocks.h"
#include "gc/cycle/snapshot_cycle.h"
#include "gc/cycle/generations.h"
#include "gc/mark/mark.h"
#include "gc/world/roots.h"
#include "vm/clock.h"
#include "vm/granule_map.h"
#include "vm/kernel/dirty.h"
#include "vm/kernel/process.h"
#include "vm/kernel/resident.h"
#include "vm/pages.h"

enum { ROUNDS = 2, CHUNK_PAGES = 32 };

/* SLICE_TAKEN: bytes that threads must take before a slice is due, at least. SLICE_MOST: the most
 * work of a slice, roughly in bytes.
 */
enum { SLICE_TAKEN = 64 << 10, SLICE_MOST = 512 << 10 };
/* Work for a byte of live blocks: the smallest blocks are more work than they have bytes. */
enum { WORK_FOR_BYTE = 2 };
/* Work for a page that a walk goes over to protect it. */
enum { PAGE_WORK = 256 };

/* Where a cycle is. Whatever the phase, concurrent_end makes it IDLE.
 *
 *     by slices       IDLE -> PROTECTING -> PREPARED -> | MARKING <-> ROUND
 *                                                       | MARKING -> MARKED -> |
 *     in a snapshot   IDLE -> GATHERING -> PREPARED -> | COPIED -> TAKING -> PROTECTING_LAST
 *                                                      |           -> MARKED -> |
 *
 * A bar is a stop. The first may come in any phase before PREPARED, too: when there is no room, or
 * it is used up. Where there are no slices TAKING leads to MARKED. From MARKING on the blocks have
 * marks: the order counts. */
enum phase {
    IDLE,
    PROTECTING,      /* the pages of live blocks */
    GATHERING,       /* huge pages, and places in the child's result */
    PREPARED,        /* the first stop is due */
    MARKING,         /* what can be reached from marked blocks */
    ROUND,           /* over the dirty pages; MARKING follows */
    COPIED,          /* the child marks */
    TAKING,          /* the marks of the child's result */
    PROTECTING_LAST, /* pages, for minor collections */
    MARKED           /* the last stop is due */
};

static struct {
    bool on, uses_snapshots;
    _Atomic enum phase phase;
    unsigned rounds;
    struct dirty_scan scan;
    /* Where a walk over the ranges of the heap's memory goes on: a range's number, and an offset in
     * it. An address would be a root. */
    size_t next_range, next_offset;
    size_t begun_at;            /* what the program had taken then, ever, in bytes */
    size_t room;                /* bytes that it may take until the end of the phase */
    size_t work_for_page;       /* that is due for each page that it takes */
    _Atomic size_t slice_taken; /* a slice is due when so many were taken */
    _Atomic size_t sliced_at;
    uint64_t slices_ns; /* of this cycle */
    struct concurrent_statistics statistics;
} cycle;

void concurrent_init(bool uses_snapshots)
{
    cycle.on = generations_are_on() && mark_init_cycle();
    cycle.uses_snapshots = uses_snapshots;
}

bool concurrent_has_slices(void)
{
    return cycle.on && generations_are_on();
}

bool concurrent_is_on(void)
{
    return cycle.uses_snapshots || concurrent_has_slices();
}

bool concurrent_runs(void)
{
    return atomic_load_explicit(&cycle.phase, memory_order_relaxed) != IDLE;
}

static void set_phase(enum phase phase)
{
    atomic_store_explicit(&cycle.phase, phase, memory_order_relaxed);
}

const struct concurrent_statistics *concurrent_statistics(void)
{
    return &cycle.statistics;
}

size_t concurrent_taken_bytes(void)
{
    return blocks_taken_bytes() - cycle.begun_at;
}

uint64_t concurrent_ns(void)
{
    return cycle.slices_ns;
}

/* Pages. */

/* A walk over the dirty pages of all ranges. */
struct walk {
    size_t range; /* its number */
    size_t work;  /* it stops when the slice has done so much */
    size_t pages_work;
    bool follows; /* what is marked on a page that is clean now */
    bool stopped;
};

/* [protect before marks] What the kernel does not protect stays dirty. */
static void protect(const struct walk *walk, uintptr_t start, uintptr_t end)
{
    if (start == end || !dirty_reprotect(&cycle.scan, start, end))
        return;
    dirty_clean(DIRTY_CYCLE, start, end);
    if (!walk->follows)
        return;
    cycle.statistics.round_pages += (end - start) / PAGE_BYTES;
    mark_changed(start, end);
}

/* A page that is mostly free will be written when its blocks are taken, which would be a fault. */
static void protect_used(const struct walk *walk, uintptr_t start, uintptr_t end)
{
    uintptr_t used = start; /* from there to the page at hand */
    for (uintptr_t page = start; page < end; page += PAGE_BYTES)
        if (!generations_page_is_used(page)) {
            protect(walk, used, page);
            used = page + PAGE_BYTES;
        }
    protect(walk, used, end);
}

static void stop_walk(struct walk *walk, size_t offset)
{
    walk->stopped = true;
    cycle.next_range = walk->range;
    cycle.next_offset = offset;
}

static void protect_dirty_range(void *argument, const char *start, const char *end,
                                const struct slab *mapping)
{
    (void)mapping;
    struct walk *walk = argument;
    size_t range = walk->range++, offset = range == cycle.next_range ? cycle.next_offset : 0;
    if (walk->stopped || range < cycle.next_range || offset >= (size_t)(end - start))
        return;
    walk->range = range;
    struct dirty_run run = {(uintptr_t)start + offset, (uintptr_t)end};
    while (!walk->stopped && dirty_next_run(DIRTY_CYCLE, &run)) {
        if (run.end - run.start > CHUNK_PAGES * PAGE_BYTES)
            run.end = run.start + CHUNK_PAGES * PAGE_BYTES;
        protect_used(walk, run.start, run.end);
        walk->pages_work += (run.end - run.start) / PAGE_BYTES * PAGE_WORK;
        if (walk->pages_work + (walk->follows ? mark_work_of_slice() : 0) >= walk->work)
            stop_walk(walk, run.end - (uintptr_t)start);
        run = (struct dirty_run){run.end, (uintptr_t)end};
    }
    walk->range = range + 1;
}

/* False: it has come to the end. */
static bool walk_some(size_t work, bool follows)
{
    struct walk walk = {.work = work, .follows = follows};
    blocks_each_range(protect_dirty_range, &walk);
    return walk.stopped;
}

static void look_at_range(void *unused, const char *start, const char *end,
                          const struct slab *mapping)
{
    (void)unused, (void)mapping;
    if (start < end)
        dirty_look(&cycle.scan, (uintptr_t)start, (uintptr_t)end);
}

static void begin_walk(void)
{
    generations_prepare();
    cycle.scan = dirty_begin();
    blocks_each_range(look_at_range, NULL);
    cycle.next_range = cycle.next_offset = 0;
}

static void set_room(size_t room, size_t live)
{
    cycle.begun_at = blocks_taken_bytes();
    atomic_store_explicit(&cycle.sliced_at, cycle.begun_at, memory_order_relaxed);
    cycle.room = room;
    cycle.slice_taken = SLICE_TAKEN;
    cycle.work_for_page = WORK_FOR_BYTE * live / (room / PAGE_BYTES + 1) + PAGE_BYTES;
}

void concurrent_begin_protecting(size_t room, size_t live)
{
    set_room(room, live);
    cycle.slices_ns = 0;
    begin_walk();
    set_phase(PROTECTING);
}

/* In a quarter of the room, for what is taken meanwhile is in small pages. */
void concurrent_begin_gathering(size_t room)
{
    size_t for_page = room / 4 / (blocks_used_bytes() / HUGE_PAGE_BYTES + 1);
    set_room(room, 0);
    if (for_page > SLICE_TAKEN)
        cycle.slice_taken = for_page;
    cycle.slices_ns = 0;
    set_phase(GATHERING);
}

void concurrent_protect(void)
{
    cycle.slices_ns = 0;
    begin_walk();
    walk_some(SIZE_MAX, false);
}

bool concurrent_has_marks(void)
{
    return atomic_load_explicit(&cycle.phase, memory_order_relaxed) >= MARKING;
}

/* A cycle. */

void concurrent_begin(size_t room, size_t live)
{
    set_room(room, live);
    cycle.rounds = 0;
    cycle.statistics.cycles++;
    /* [born marked]: the heap's lock has been held since before the stop, so no slab was made. */
    blocks_mark_newborn(true);
    set_phase(MARKING);
}

void concurrent_begin_in_snapshot(size_t room, size_t live)
{
    if (!concurrent_runs())
        cycle.slices_ns = 0;
    concurrent_begin(room, live);
    set_phase(COPIED);
}

bool concurrent_gathers(void)
{
    return atomic_load_explicit(&cycle.phase, memory_order_relaxed) == GATHERING;
}

bool concurrent_awaits_snapshot(void)
{
    enum phase phase = atomic_load_explicit(&cycle.phase, memory_order_relaxed);
    return phase == COPIED || phase == TAKING;
}

void concurrent_take_snapshot(void)
{
    set_phase(TAKING);
}

bool concurrent_takes_snapshot(void)
{
    return cycle.phase == TAKING;
}

void concurrent_snapshot_taken(uint64_t cpu_ns)
{
    cycle.slices_ns += cpu_ns;
    if (concurrent_has_slices())
        begin_walk();
    set_phase(concurrent_has_slices() ? PROTECTING_LAST : MARKED);
}

void concurrent_end(bool given_up)
{
    blocks_mark_newborn(false);
    blocks_note_freed(false);
    cycle.statistics.given_up += given_up && concurrent_runs();
    set_phase(IDLE);
}

static size_t taken_since_slice(void)
{
    return blocks_taken_bytes() - atomic_load_explicit(&cycle.sliced_at, memory_order_relaxed);
}

bool concurrent_is_due(void)
{
    return taken_since_slice() >= cycle.slice_taken;
}

bool concurrent_is_overdue(void)
{
    return blocks_taken_bytes() - cycle.begun_at > 2 * cycle.room;
}

bool concurrent_is_to_stop(void)
{
    enum phase phase = atomic_load_explicit(&cycle.phase, memory_order_relaxed);
    return phase == MARKED || phase == PREPARED || (phase != COPIED && concurrent_is_overdue());
}

/* What is due and is more than a slice may do is left to the next. */
static size_t due_work(void)
{
    size_t taken = taken_since_slice();
    size_t most = (SLICE_MOST / cycle.work_for_page + 1) * PAGE_BYTES;
    if (taken > most)
        taken = most;
    atomic_fetch_add_explicit(&cycle.sliced_at, taken, memory_order_relaxed);
    return taken / PAGE_BYTES * cycle.work_for_page;
}

/* Nothing is left to mark: what comes next. */
static void next_phase(size_t work)
{
    if (cycle.phase == ROUND) {
        if (!walk_some(work, true))
            set_phase(MARKING);
    } else if (cycle.rounds < ROUNDS) {
        cycle.rounds++;
        cycle.statistics.rounds++;
        begin_walk();
        set_phase(ROUND);
    } else {
        set_phase(MARKED);
    }
}

static void work_on_marks(size_t work, bool may_read)
{
    mark_begin_slice(may_read ? process_file(PROCESS_MEMORY) : -1);
    while (cycle.phase != MARKED && mark_some(work) && mark_work_of_slice() < work)
        next_phase(work);
    mark_changed_done();
    mark_end_slice();
}

/* A step makes one huge page at most. A thread may take much at once: then several steps are due,
 * and a few are taken. After half of the room it is too late for more pages. */
static void prepare_snapshot(bool may_read)
{
    enum { MOST_STEPS = 4 };
    size_t due = taken_since_slice() / cycle.slice_taken;
    bool gathers = may_read && concurrent_taken_bytes() < cycle.room / 2;
    atomic_store_explicit(&cycle.sliced_at, blocks_taken_bytes(), memory_order_relaxed);
    bool more = true;
    for (size_t steps = 0; more && (steps == 0 || (steps < due && steps < MOST_STEPS)); steps++)
        more = snapshot_cycle_prepare_some(gathers);
    if (!more)
        set_phase(PREPARED);
}

static void count_slice(uint64_t ns)
{
    cycle.slices_ns += ns;
    cycle.statistics.slices++;
    cycle.statistics.slice_ns += ns;
    if (ns > cycle.statistics.longest_slice_ns)
        cycle.statistics.longest_slice_ns = ns;
}

static void work_on_phase(size_t work, bool may_read)
{
    cycle.scan = dirty_begin();
    if (cycle.phase == PROTECTING_LAST) {
        if (!walk_some(work, false))
            set_phase(MARKED);
    } else if (concurrent_has_marks())
        work_on_marks(work, may_read);
    else if (cycle.phase == PROTECTING && !walk_some(work, false))
        set_phase(PREPARED);
}

/* may_read is false where a touched page may wait for the program to fill it. The blocks in such
 * pages are then left to the last stop. */
void concurrent_slice(size_t work)
{
    uint64_t begun_ns = monotonic_ns();
    bool may_read = resident_open() && !roots_pages_fault();
    if (cycle.phase == GATHERING)
        prepare_snapshot(may_read);
    else
        work_on_phase(work > 0 ? work : due_work(), may_read);
    count_slice(monotonic_ns() - begun_ns);
}

void concurrent_did_slice(uint64_t ns)
{
    atomic_store_explicit(&cycle.sliced_at, blocks_taken_bytes(), memory_order_relaxed);
    count_slice(ns);
}

/* The last stop. */

static void mark_changed_range(void *unused, const char *start, const char *end,
                               const struct slab *mapping)
{
    (void)unused, (void)mapping;
    struct dirty_run run = {(uintptr_t)start, (uintptr_t)end};
    while (dirty_next_run(DIRTY_CYCLE, &run)) {
        cycle.statistics.last_pages += (run.end - run.start) / PAGE_BYTES;
        cycle.statistics.rescanned_bytes += mark_changed(run.start, run.end);
        run = (struct dirty_run){run.end, (uintptr_t)end};
    }
}

/* [last harvest]. The harvest itself was generations_begin's. */
void concurrent_mark_changed(void)
{
    blocks_each_range(mark_changed_range, NULL);
    mark_changed_done();
    mark_untracked();
}
