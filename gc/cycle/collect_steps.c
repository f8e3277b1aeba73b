/* SPDX-License-Identifier: MIT
 *
 * collect_steps.c: what the driver (gc/world/collection.h) asks of `gc` at each step of a
 * collection, and the account of it.
 *
 *     collector's lock    one collection at a time: [one collection]
 *       blocks_lock       no stopped thread holds it: [no heap lock stopped]
 *         prepare         tracks what is new                          generations.c, concurrent.c
 *         begin           clears the marks                            mark.c
 *         mark            follows what the roots point to             drain.c
 *         again           for the verifier, a second time             verify.c
 *         sweep           frees what has no mark                      sweep.c
 *         finish          sets the pace; gives large dead blocks back pace.c; collector.c
 *                                                                     (alloc/blocks)
 *
 * What each step writes in the heap, and what becomes of it when the collection is given up there:
 *
 *     prepare     pages are tracked; of a cycle       they stay so: [clean is proven]
 *                 also clean for DIRTY_CYCLE          (vm/kernel/dirty.h)
 *     stop        nothing                             [late ack] (gc/world/stop.c)
 *     begin       free bits of local free lists       `abandon` clears them: [local is free]
 *                 block_was_freed; of a cycle         the next first stop clears it; the end of
 *                 notes_freed                         the cycle clears it
 *                 marks, unborn bits                  the next collection is no minor one, and
 *     roots,      marks; pins of all live blocks,     clears all marks: [marks are whole],
 *       mark        when a hider is found; their      [given up is full]. Pins stay
 *                   slabs become young
 *     sweep       free, live, retired, suspect and    from here on it is not given up
 *                 old bits; the list of young slabs;
 *                 pages become protected and clean
 *                 for DIRTY_GENERATIONS. A minor one
 *                 offers slabs to their threads, as
 *                 by a remote free; a full one counts
 *                 `sweeps`, and threads rebin. Of a
 *                 late sweep its number, too
 *     finish      large blocks, runs: with the lock
 *     behind a    marks_newborn                       the end of the cycle clears it
 *     first stop
 *     before that of a cycle in a child
 *                 marks_at, has_freed, unborn         the next such cycle writes them anew; nobody
 *                                                     reads them without marks_newborn
 *
 * Invariant
 * [local is free]       In a stopped world the blocks in threads' local free lists have their free
 *                       bits set: from `begin` until `sweep` or `abandon` clears the bits again. A
 *                       thread that was stopped finds its lists and their bits as it left them. The
 *                       lists can be walked: [whole list] (alloc/blocks/heap.h).
 */
#include "gc/cycle/collect_state.h"

#include "alloc/blocks/blocks.h"
#include "alloc/blocks/quarantine.h"
#include "gc/cycle/concurrent.h"
#include "gc/cycle/generations.h"
#include "gc/cycle/hiders.h"
#include "gc/cycle/leaks.h"
#include "gc/cycle/pace.h"
#include "gc/cycle/verify.h"
#include "vm/granule_map.h"
#include "vm/metadata.h"

bool (*collect_found_hider)(void);
void (*collect_suspect_pointed_to)(const void *block, size_t bytes);

static void exclude(struct excluded_range excluded[], size_t count, struct excluded_range range)
{
    for (; count > 0 && (uintptr_t)excluded[count - 1].start > (uintptr_t)range.start; count--)
        excluded[count] = excluded[count - 1];
    excluded[count] = range;
}

/* What leads to records of the heap. A record may lie right behind a block: its address would keep
 * that block. In order of address, which is the linker's choice. */
static void exclude_records(struct excluded_range excluded[EXCLUDED_RANGES])
{
    struct excluded_range heap, records, map;
    blocks_state(&heap.start, &heap.bytes);
    metadata_first_extent(&records.start, &records.bytes);
    map.start = granule_map_first_leaf;
    map.bytes = sizeof(granule_map_entry) << GRANULE_MAP_LEAF_BITS;
    exclude(excluded, 0, heap);
    exclude(excluded, 1, records);
    exclude(excluded, 2, map);
}

/* Does not pin what the program has freed, not even a hider's. A thread that is stopped in free,
 * and has asked for the block's pin before, retires or frees the block all the same. One that it
 * retires stays for good, at most one a thread; one that it frees leaves its pin to the next block
 * there. */
static void pin_all(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < slab_words(slab); i++) {
        uint64_t live = slab_live(slab, i) & ~slab->words[i].retired;
        if (live)
            slab_pin(slab, i, live);
    }
    blocks_enter_young(slab); /* [pins are roots] */
}

static void look_for_hiders(const struct mapping *mappings, size_t count)
{
    if (!hiders_look(mappings, count) || collect_state.tells_hiders)
        return;
    blocks_each_slab(pin_all, NULL);
    if (!collect_found_hider())
        hiders_look_again();
}

/* The first stop of a cycle, or of a search for leaks: nothing is reclaimed. */
static bool only_begins(void)
{
    return collect_state.stop_kind == FIRST_STOP || collect_state.stop_kind == LEAK_STOP;
}

/* Whether the stop at hand makes a snapshot. */
static bool makes_snapshot(void)
{
    return collect_state.stop_kind == LEAK_STOP ||
           (collect_state.stop_kind == FIRST_STOP && collect_state.marks_in_snapshot);
}

/* Old words stay on a stack, also after its thread has ended, so they prove nothing. Elsewhere the
 * program has written the word since the last collection. */
static void next_mapping(bool has_stack)
{
    mark_defer_roots(only_begins() && !collect_state.in_snapshot);
    mark_tell_suspects(collect_state.statistics.suspects > 0 && !has_stack &&
                       (collect_state.stop_kind != FIRST_STOP || collect_state.marks_in_snapshot));
}

void collect_give_up_cycle(void)
{
    if (concurrent_has_marks())
        collect_state.is_full = true;
    concurrent_end(true);
    snapshot_end(&collect_state.cycle_snapshot);
}

/* Before a snapshot: nothing of the heap changes. */
static void begin_noting(void)
{
    generations_forget_marks();
    mark_begin_noting();
    if (collect_state.stop_kind == LEAK_STOP)
        return;
    blocks_forget_frees();
    blocks_note_freed(true); /* [freed is born again] */
}

/* The marks as they are before the roots: clear, or those of old blocks, or of a cycle. */
static void begin_marks(void)
{
    if (collect_state.verifying) {
        mark_begin();
        return;
    }
    collect_state.marked.suspect = NULL; /* a root otherwise, which would be told again */
    if (makes_snapshot()) {
        begin_noting();
        return;
    }
    if (collect_state.stop_kind == FIRST_STOP) {
        generations_forget_marks();
        mark_begin_cycle();
        return;
    }
    collect_state.minor = generations_begin(collect_state.minor);
    if (ends_snapshot_cycle()) {
        snapshot_cycle_complete();
        return;
    }
    if (collect_state.stop_kind == LAST_STOP && generations_are_in_doubt()) {
        collect_state.stop_kind = WHOLE;
        collect_give_up_cycle();
    }
    if (collect_state.stop_kind == LAST_STOP)
        mark_end_cycle();
    else if (collect_state.minor)
        mark_begin_minor();
    else
        mark_begin();
}

static void prepare(void)
{
    bool wanted = collect_state.stop_kind == LAST_STOP ||
                  (collect_state.stop_kind == WHOLE && pace_has_minors());
    if (makes_snapshot())
        return;
    if (collect_state.stop_kind == FIRST_STOP && !concurrent_runs())
        concurrent_protect();
    else if (generations_are_on() && wanted)
        generations_prepare();
}

static void begin(struct root_visitor *visitor)
{
    blocks_set_local_free_bits(true);
    begin_marks();
    visitor->mapped = look_for_hiders;
    visitor->next_mapping = next_mapping;
    visitor->words = mark_roots;
    visitor->words_in_code = mark_roots_in_code;
    visitor->unreadable_blocks = mark_skip_unreadable;
    visitor->untouchable = mark_skip_part;
    visitor->kernel_writes = generations_are_on() ? generations_kernel_writes : NULL;
    exclude_records(visitor->excluded);
}

static void mark_reachable(void)
{
    struct mark_result verifiers;
    if (ends_snapshot_cycle()) {
        collect_state.marked = collect_state.taken.marked;
        collect_state.statistics.pinned_blocks = collect_state.taken.pinned;
        return;
    }
    uint64_t pinned = mark_pinned(); /* [pinned at both stops] */
    if (collect_state.verifying) {
        mark_finish(0, &verifiers);
        return;
    }
    if (collect_state.stop_kind == FIRST_STOP)
        return;
    if (collect_state.stop_kind == LAST_STOP)
        concurrent_mark_changed();
    if (collect_state.minor) {
        verify_clean_pages();
        generations_mark_old();
    } else {
        collect_state.statistics.pinned_blocks = pinned;
    }
    if (collect_state.cause != CAUSE_LEAKS) {
        mark_finish(pace_helpers(collect_state.minor, collect_state.markers - 1),
                    &collect_state.marked);
        return;
    }
    mark_finish(0, &collect_state.marked);
    collect_state.leaks_are_found =
        leaks_visit(collect_state.leak_visitor, collect_state.leak_argument);
}

/* In the child of a snapshot. What its parent has noted is on the mark stack. */
static bool begin_in_snapshot(void)
{
    collect_state.in_snapshot = true;
    return mark_begin_noted();
}

static bool mark_in_snapshot(struct snapshot *snapshot)
{
    struct snapshot_cycle_result result = {.pinned = mark_pinned()};
    mark_finish(0, &result.marked);
    if (collect_state.stop_kind == LEAK_STOP)
        return leaks_visit(collect_state.leak_visitor, collect_state.leak_argument);
    snapshot_cycle_hand_back(snapshot, &result);
    return true;
}

/* The parent marks, too, in the stop that has made the child. The verifier compares the child's
 * marks with the parent's. */
static bool verify_snapshot_again(void)
{
    if (collect_state.stop_kind == LEAK_STOP || !verify_is_on())
        return false;
    if (collect_state.verifying)
        verify_keep_marks(false);
    collect_state.verifying = !collect_state.verifying;
    return collect_state.verifying;
}

/* After a minor marking, or a cycle's, the verifier's full one. */
static bool mark_again(void)
{
    if (makes_snapshot())
        return verify_snapshot_again();
    if (ends_snapshot_cycle())
        return false;
    if (collect_state.verifying)
        verify_marks();
    else if ((collect_state.minor || collect_state.stop_kind == LAST_STOP) && verify_is_on())
        verify_keep_marks(collect_state.minor);
    else
        return false;
    collect_state.verifying = !collect_state.verifying;
    return collect_state.verifying;
}

/* A program that forgets more blocks than it frees relies on the collector. Its dead blocks are
 * reclaimed at once: they are too many to keep until a second collection has found them dead, and a
 * word that points to one of them later would prove nothing. */
static enum sweep_leaks leaks_now(void)
{
    enum sweep_leaks leaks = atomic_load(&collect_state.leaks);
    bool forgets = collect_state.retires && collect_state.forgotten > collect_state.retired;
    if (leaks != SWEEP_SUSPECT)
        return leaks;
    return collect_state.marked.suspect ? SWEEP_KEEP : forgets ? SWEEP_RECLAIM : SWEEP_SUSPECT;
}

/* Until the slabs are swept, old_bytes is an estimate: what was marked, and all that was taken
 * since the cycle began. */
static void leave_sweep(enum sweep_leaks leaks)
{
    collect_state.is_unswept = true;
    collect_state.next_swept = 0;
    collect_state.swept = (struct sweep_result){0};
    sweep_begin_late(leaks);
    collect_state.old_bytes = collect_state.marked.bytes + concurrent_taken_bytes();
    if (pace_has_minors())
        generations_protect(true, true);
}

/* The sweep is not left for later where frees count: the program may have hidden its pointer to a
 * dead block, and might free the block before the sweep does. Nor is it with a limit: the heap must
 * then know at once which slabs are empty. */
static bool leaves_sweep(enum sweep_leaks leaks)
{
    return collect_state.stop_kind == LAST_STOP && collect_state.retires && !pace_has_limit() &&
           sweep_may_be_late(leaks);
}

/* In slabs with a live block. */
static size_t used_bytes(void)
{
    size_t used = blocks_used_bytes(), empty = collect_state.swept.empty_bytes;
    return used > empty ? used - empty : 0;
}

/* A minor collection does not see which old blocks the program has freed. So what is used bounds
 * what lives. */
static uint64_t old_bytes_after_sweep(void)
{
    if (!collect_state.minor)
        return collect_state.swept.live_bytes;
    uint64_t old = collect_state.old_bytes + collect_state.swept.promoted_bytes;
    return old < used_bytes() ? old : used_bytes();
}

static void sweep_stopped(enum sweep_leaks leaks)
{
    quarantine_end_ageing();
    if (generations_are_on())
        sweep_and_promote(leaks, collect_state.minor, &collect_state.swept);
    else
        sweep(leaks, &collect_state.swept);
    collect_state.old_bytes = old_bytes_after_sweep();
    bool ceases = !collect_state.minor &&
                  pace_much_lives(collect_state.swept.promoted_bytes, blocks_taken_bytes());
    if (pace_has_minors() && !ceases) /* else they rest after it */
        generations_protect(false, collect_state.stop_kind == LAST_STOP);
}

static uint64_t sweep_unmarked(void)
{
    enum sweep_leaks leaks = leaks_now();
    if (!only_begins() && leaves_sweep(leaks))
        leave_sweep(leaks);
    else if (!only_begins())
        sweep_stopped(leaks);
    blocks_set_local_free_bits(false);
    return collect_state.old_bytes;
}

static void abandon(void)
{
    collect_state.verifying = false;
    blocks_set_local_free_bits(false);
}

static void count_work(void)
{
    struct collect_statistics *statistics = &collect_state.statistics;
    statistics->causes[collect_state.cause]++;
    statistics->marked_blocks += collect_state.marked.blocks;
    statistics->marked_bytes += collect_state.marked.bytes;
    statistics->mark_overflows += collect_state.marked.overflows;
    if (collect_state.marked.markers > statistics->most_markers)
        statistics->most_markers = collect_state.marked.markers;
}

static void count_swept(void)
{
    struct collect_statistics *statistics = &collect_state.statistics;
    collect_state.retired += collect_state.swept.retired_blocks;
    collect_state.forgotten += collect_state.swept.blocks + collect_state.swept.suspected_blocks -
                               collect_state.swept.retired_blocks;
    statistics->promoted_bytes += collect_state.swept.promoted_bytes;
    statistics->freed_blocks += collect_state.swept.blocks;
    statistics->freed_bytes += collect_state.swept.bytes;
    bool retires =
        collect_state.retires || quarantine_on; /* else they have no pointers, see gc.c */
    statistics->reclaimed_blocks +=
        collect_state.swept.blocks - (retires ? collect_state.swept.retired_blocks : 0);
    statistics->held_blocks = collect_state.swept.held_blocks;
    statistics->held_bytes = collect_state.swept.held_bytes;
    statistics->suspected_blocks += collect_state.swept.suspected_blocks;
    statistics->suspected_bytes += collect_state.swept.suspect_bytes;
    statistics->suspects = collect_state.swept.suspects;
    statistics->newly_suspected = collect_state.swept.suspected_blocks;
    statistics->pointed_to += collect_state.swept.pointed_to;
}

static void count_kind(struct collect_kind *kind, const struct collection *collection)
{
    kind->collections++;
    kind->pause_ns += collection->pause_ns;
    kind->cpu_ns += collection->cpu_ns;
    kind->stop_ns += collection->stop_ns;
    kind->root_ns += collection->root_ns;
    kind->mark_ns += collection->mark_ns;
    kind->sweep_ns += collection->sweep_ns;
    if (collection->pause_ns > kind->longest_pause_ns)
        kind->longest_pause_ns = collection->pause_ns;
}

/* Minor and full collections apart; collect_state.rescanned_bytes becomes those of this one. */
static void count_generation(const struct collection *collection)
{
    struct collect_statistics *statistics = &collect_state.statistics;
    struct collect_kind *kind = collect_state.minor ? &statistics->minor : &statistics->full;
    count_kind(kind, collection);
    kind->marked_blocks += collect_state.marked.blocks;
    uint64_t rescanned = generations_statistics()->rescanned_bytes;
    collect_state.rescanned_bytes = rescanned - collect_state.rescanned_before;
    collect_state.rescanned_before = rescanned;
}

static void set_pace(const struct collection *collection)
{
    struct pace_report report = {
        .used = used_bytes(),
        .allocated = blocks_taken_bytes(),
        .requested = collect_state.requested,
        .live = collect_state.old_bytes,
        .minor = collect_state.minor,
        .ready = generations_are_ready(),
        .promoted = collect_state.swept.promoted_bytes,
        .unswept = collect_state.is_unswept,
        .followed = collect_state.swept.promoted_bytes + collect_state.rescanned_bytes,
        .freed = collect_state.swept.bytes +
                 collect_state.swept.suspect_bytes, /* what the program forgot */
        .roots = ends_snapshot_cycle() ? collect_state.snapshot_root_bytes
                                       : collection->roots.bytes + collection->roots.indirect_bytes,
        .pause_ns = collection->pause_ns,
        .mark_ns = collection->mark_ns,
        .fixed_ns = collection->stop_ns + collection->root_ns,
        .ran_ns = collection->ran_ns,
        .slices_ns = collect_state.stop_kind == LAST_STOP ? concurrent_ns() : 0,
    };
    pace_collected(&report);
}

void collect_count_late_sweep(void)
{
    collect_state.is_unswept = false;
    sweep_end_late(&collect_state.swept);
    count_swept();
    collect_state.old_bytes = collect_state.swept.live_bytes;
    pace_swept(collect_state.swept.promoted_bytes);
    if (generations_are_on() && !pace_has_minors())
        generations_rest();
}

void collect_end_sweep(void)
{
    if (!collect_state.is_unswept)
        return;
    blocks_sweep_rest();
    collect_count_late_sweep();
}

static void finish(const struct collection *collection)
{
    if (!collection->reclaimed) {
        pace_given_up(blocks_used_bytes(), blocks_taken_bytes(), collect_state.requested);
        return;
    }
    if (only_begins()) {
        count_kind(collect_state.stop_kind == FIRST_STOP ? &collect_state.statistics.first_stop
                                                         : &collect_state.statistics.leak_stop,
                   collection);
        return;
    }
    count_work();
    if (!collect_state.is_unswept)
        count_swept();
    count_generation(collection);
    set_pace(collection);
    if (pace_headroom() > 0)
        blocks_retain(pace_headroom());
    if (collect_state.minor)
        blocks_young_swept();
    else if (collect_state.is_unswept)
        blocks_swept_late();
    else
        blocks_swept();
    if (generations_are_on() && !pace_has_minors())
        generations_rest();
    if (collect_state.marked.suspect)
        collect_suspect_pointed_to(collect_state.marked.suspect,
                                   collect_state.marked.suspect_bytes);
}

const struct collector collect_steps = {.prepare = prepare,
                                        .begin = begin,
                                        .mark = mark_reachable,
                                        .again = mark_again,
                                        .begin_in_snapshot = begin_in_snapshot,
                                        .mark_in_snapshot = mark_in_snapshot,
                                        .sweep = sweep_unmarked,
                                        .abandon = abandon,
                                        .finish = finish};
