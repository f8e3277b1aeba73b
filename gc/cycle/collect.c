/* SPDX-License-Identifier: MIT
 *
 * collect.c: the collections of `gc`: what its driver (gc/world/collection.h) asks of it.
 *
 *     state.lock          one collection at a time: [one-collection]
 *       blocks_lock       no stopped thread holds it: [no-heap-lock-stopped]
 *         prepare         tracks what is new                          generations.c
 *         begin           clears the marks                            mark.c
 *         mark            follows what the roots point to             drain.c
 *         again           for the verifier, a second time             verify.c
 *         sweep           frees what has no mark                      sweep.c
 *         finish          sets the pace, gives large dead blocks back pace.c
 *
 * A full collection may be a cycle (concurrent.h): two stops, of which the first ends after the
 * roots, and slices between them.
 *
 * What each step writes in the heap, and what becomes of it when the collection is given up there:
 *
 *     prepare     pages are tracked; of a cycle       they stay so: [clean is proven]
 *                 also clean for DIRTY_CYCLE          (vm/kernel/dirty.h)
 *     stop        nothing                             [late-ack] (gc/world/stop.c)
 *     begin       free bits of local free lists       `abandon` clears them: [local-is-free]
 *                 block_was_freed; of a cycle         the next first stop clears it; the end of
 *                 notes_freed, marks_newborn          the cycle clears both
 *                 marks, unborn bits                  the next collection is no minor one, and
 *     roots,      marks; pins of all live blocks,     clears all marks: [marks are whole],
 *       mark        when a hider is found; their      [given up is full]. Pins stay
 *                   slabs become young
 *     sweep       free, live, retired, suspect and    from here on it is not given up
 *                 old bits; the list of young slabs;
 *                 `queued` and its queues, bins of
 *                 the fast table: NULL. Of a late
 *                 sweep its number, too
 *     finish      large blocks, runs: with the lock
 *
 * A fork waits for state.lock. So it comes between two collections, or between the stops of a
 * cycle, or while slabs wait for a late sweep. The child gives a cycle up ([given up is full]). It
 * has the marks and numbers of a late sweep, and goes on with it (alloc/blocks/late_sweep.h).
 *
 * Invariant
 * [local-is-free]       In a stopped world the blocks in threads' local free lists have their free
 *                       bits set: from `begin` until `sweep` or `abandon` clears the bits again. A
 *                       thread that was stopped finds its lists and their bits as it left them. The
 *                       lists can be walked: [whole list] (alloc/blocks/heap.h).
 *
 * A thread that waited for another's collection does not begin its own: `finished` tells.
 */
#include "gc/cycle/collect.h"

#include "alloc/blocks/blocks.h"
#include "alloc/blocks/quarantine.h"
#include "gc/cycle/concurrent.h"
#include "gc/cycle/snapshot_cycle.h"
#include "gc/cycle/generations.h"
#include "gc/cycle/hiders.h"
#include "gc/cycle/leaks.h"
#include "gc/cycle/pace.h"
#include "gc/cycle/verify.h"
#include "gc/mark/mark.h"
#include "gc/world/excepted.h"
#include "vm/clock.h"
#include "vm/fork_chain.h"
#include "vm/granule_map.h"
#include "vm/lock.h"
#include "vm/metadata.h"
#include "vm/syscall.h"

/* Which stop of a collection this is. NO_STOP: a cycle begins, and prepares pages first.
 * LEAK_STOP: a snapshot is made to find the leaks, and nothing is reclaimed. */
enum stop_kind { WHOLE, NO_STOP, FIRST_STOP, LAST_STOP, LEAK_STOP };

static struct {
    struct lock lock; /* of all that follows, but for `leaks` and `finished`, which are atomic */
    struct collection_driver driver;
    unsigned markers;
    bool retires, tells_hiders;
    _Atomic enum sweep_leaks leaks;
    uint64_t retired, forgotten; /* dead blocks, ever */
    _Atomic uint64_t finished;   /* collections that were not given up */
    leak_visitor *leak_visitor;  /* of CAUSE_LEAKS; and what came of it */
    void *leak_argument;
    bool leaks_are_found;
    struct snapshot leak_search;
    unsigned looks;                     /* at it */
    bool in_snapshot;                   /* this is the child of a snapshot */
    bool uses_snapshots;                /* cycles mark in snapshots, where there can be any */
    bool marks_in_snapshot;             /* the one at hand does, or did */
    struct snapshot cycle_snapshot;     /* of a cycle */
    struct snapshot_cycle_result taken; /* from it */
    uint64_t snapshot_root_bytes;
    /* The collection at hand, and what it leaves to the next. */
    enum collect_cause cause;
    size_t requested;
    enum stop_kind stop_kind;
    bool minor;     /* by [marks are whole] and [doubt is full] */
    bool is_full;   /* the next is no cycle: [given up is full] */
    bool verifying; /* the second marking, a full one */
    uint64_t rescanned_bytes, rescanned_before;
    bool is_unswept;    /* the last collection has left its sweep: [swept-before-stop] */
    size_t next_swept;  /* blocks_sweep_some */
    uint64_t old_bytes; /* live after the last full collection, or promoted since */
    struct mark_result marked;
    struct sweep_result swept;
    struct collect_statistics statistics;
} state = {.lock = LOCK_INITIALIZER(RANK_COLLECTOR),
           .cycle_snapshot.withholds = true,
           .statistics.driver = &state.driver.statistics};

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

/* Blocks that the program has freed are not pinned, those of a hider neither. */
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
    if (!hiders_look(mappings, count) || state.tells_hiders)
        return;
    blocks_each_slab(pin_all, NULL);
    if (!collect_found_hider())
        hiders_look_again();
}

/* The first stop of a cycle, or of a search for leaks: nothing is reclaimed. */
static bool only_begins(void)
{
    return state.stop_kind == FIRST_STOP || state.stop_kind == LEAK_STOP;
}

/* Whether the stop at hand makes a snapshot. */
static bool makes_snapshot(void)
{
    return state.stop_kind == LEAK_STOP ||
           (state.stop_kind == FIRST_STOP && state.marks_in_snapshot);
}

/* Whether it ends a cycle that has marked in a snapshot: nothing is left to mark. */
static bool ends_snapshot_cycle(void)
{
    return state.stop_kind == LAST_STOP && state.marks_in_snapshot;
}

/* Old words stay on a stack, also after its thread has ended, so they prove nothing. Elsewhere the
 * program has written the word since the last collection. */
static void next_mapping(bool has_stack)
{
    mark_defer_roots(only_begins() && !state.in_snapshot);
    mark_tell_suspects(state.statistics.suspects > 0 && !has_stack &&
                       (state.stop_kind != FIRST_STOP || state.marks_in_snapshot));
}

/* Whatever the cycle has marked is cleared by the next collection: [given up is full]. (Before its
 * first stop it has marked nothing.) */
static void give_up_cycle(void)
{
    if (concurrent_has_marks())
        state.is_full = true;
    concurrent_end(true);
    snapshot_end(&state.cycle_snapshot);
}

/* Before a snapshot: nothing of the heap changes. */
static void begin_noting(void)
{
    generations_forget_marks();
    mark_begin_noting();
    if (state.stop_kind == LEAK_STOP)
        return;
    blocks_forget_frees();
    blocks_note_freed(true); /* [freed is born again] */
}

/* The marks as they are before the roots: clear, or those of old blocks, or of a cycle. */
static void begin_marks(void)
{
    if (state.verifying) {
        mark_begin();
        return;
    }
    state.marked.suspect = NULL; /* a root otherwise, which would be told again */
    if (makes_snapshot()) {
        begin_noting();
        return;
    }
    if (state.stop_kind == FIRST_STOP) {
        generations_forget_marks();
        mark_begin_cycle();
        return;
    }
    state.minor = generations_begin(state.minor);
    if (ends_snapshot_cycle()) {
        snapshot_cycle_complete();
        return;
    }
    if (state.stop_kind == LAST_STOP && generations_are_in_doubt()) {
        state.stop_kind = WHOLE;
        give_up_cycle();
    }
    if (state.stop_kind == LAST_STOP)
        mark_end_cycle();
    else if (state.minor)
        mark_begin_minor();
    else
        mark_begin();
}

static void prepare(void)
{
    bool wanted = state.stop_kind == LAST_STOP || (state.stop_kind == WHOLE && pace_has_minors());
    if (makes_snapshot())
        return;
    if (state.stop_kind == FIRST_STOP && !concurrent_runs())
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
        state.marked = state.taken.marked;
        state.statistics.pinned_blocks = state.taken.pinned;
        return;
    }
    uint64_t pinned = mark_pinned();
    if (state.verifying) {
        mark_finish(0, &verifiers);
        return;
    }
    if (state.stop_kind == FIRST_STOP)
        return;
    if (state.stop_kind == LAST_STOP)
        concurrent_mark_changed();
    if (state.minor) {
        verify_clean_pages();
        generations_mark_old();
    } else {
        state.statistics.pinned_blocks = pinned;
    }
    if (state.cause != CAUSE_LEAKS) {
        mark_finish(pace_helpers(state.minor, state.markers - 1), &state.marked);
        return;
    }
    mark_finish(0, &state.marked);
    state.leaks_are_found = leaks_visit(state.leak_visitor, state.leak_argument);
}

/* In the child of a snapshot. What its parent has noted is on the mark stack. */
static bool begin_in_snapshot(void)
{
    state.in_snapshot = true;
    return mark_begin_noted();
}

static bool mark_in_snapshot(struct snapshot *snapshot)
{
    struct snapshot_cycle_result result = {.pinned = mark_pinned()};
    mark_finish(0, &result.marked);
    if (state.stop_kind == LEAK_STOP)
        return leaks_visit(state.leak_visitor, state.leak_argument);
    snapshot_cycle_hand_back(snapshot, &result);
    return true;
}

/* The parent marks, too, in the stop that has made the child. The verifier compares the child's
 * marks with the parent's. */
static bool verify_copy_again(void)
{
    if (state.stop_kind == LEAK_STOP || !verify_is_on())
        return false;
    if (state.verifying)
        verify_keep_marks(false);
    state.verifying = !state.verifying;
    return state.verifying;
}

/* After a minor marking, or a cycle's, the verifier's full one. */
static bool mark_again(void)
{
    if (makes_snapshot())
        return verify_copy_again();
    if (ends_snapshot_cycle())
        return false;
    if (state.verifying)
        verify_marks();
    else if ((state.minor || state.stop_kind == LAST_STOP) && verify_is_on())
        verify_keep_marks(state.minor);
    else
        return false;
    state.verifying = !state.verifying;
    return state.verifying;
}

/* A program that forgets more blocks than it frees relies on the collector. Its dead blocks are
 * reclaimed at once: they are too many to keep until a second collection has found them dead, and a
 * word that points to one of them later would prove nothing. */
static enum sweep_leaks leaks_now(void)
{
    enum sweep_leaks leaks = atomic_load(&state.leaks);
    bool forgets = state.retires && state.forgotten > state.retired;
    if (leaks != SWEEP_SUSPECT)
        return leaks;
    return state.marked.suspect ? SWEEP_KEEP : forgets ? SWEEP_RECLAIM : SWEEP_SUSPECT;
}

/* Until the slabs are swept, old_bytes is an estimate: what was marked, and all that was taken
 * since the cycle began. */
static void leave_sweep(enum sweep_leaks leaks)
{
    state.is_unswept = true;
    state.next_swept = 0;
    state.swept = (struct sweep_result){0};
    sweep_begin_late(leaks);
    state.old_bytes = state.marked.bytes + concurrent_taken_bytes();
    if (pace_has_minors())
        generations_protect(true, true);
}

/* The sweep is not left for later where frees count: the program may have hidden its pointer to a
 * dead block, and might free the block before the sweep does. Nor is it with a limit: the heap must
 * then know at once which slabs are empty. */
static bool leaves_sweep(enum sweep_leaks leaks)
{
    return state.stop_kind == LAST_STOP && state.retires && !pace_has_limit() &&
           sweep_may_be_late(leaks);
}

static void sweep_stopped(enum sweep_leaks leaks)
{
    quarantine_end_ageing();
    if (generations_are_on())
        sweep_and_promote(leaks, state.minor, &state.swept);
    else
        sweep(leaks, &state.swept);
    state.old_bytes =
        state.minor ? state.old_bytes + state.swept.promoted_bytes : state.swept.live_bytes;
    bool ceases = !state.minor && pace_much_lives(state.swept.promoted_bytes, blocks_taken_bytes());
    if (pace_has_minors() && !ceases) /* else they rest after it */
        generations_protect(false, state.stop_kind == LAST_STOP);
}

static uint64_t sweep_unmarked(void)
{
    enum sweep_leaks leaks = leaks_now();
    if (!only_begins() && leaves_sweep(leaks))
        leave_sweep(leaks);
    else if (!only_begins())
        sweep_stopped(leaks);
    blocks_set_local_free_bits(false);
    return state.old_bytes;
}

static void abandon(void)
{
    state.verifying = false;
    blocks_set_local_free_bits(false);
}

static void count_work(void)
{
    struct collect_statistics *statistics = &state.statistics;
    statistics->causes[state.cause]++;
    statistics->marked_blocks += state.marked.blocks;
    statistics->marked_bytes += state.marked.bytes;
    statistics->mark_overflows += state.marked.overflows;
    if (state.marked.markers > statistics->most_markers)
        statistics->most_markers = state.marked.markers;
}

static void count_swept(void)
{
    struct collect_statistics *statistics = &state.statistics;
    state.retired += state.swept.retired_blocks;
    state.forgotten +=
        state.swept.blocks + state.swept.suspected_blocks - state.swept.retired_blocks;
    statistics->promoted_bytes += state.swept.promoted_bytes;
    statistics->freed_blocks += state.swept.blocks;
    statistics->freed_bytes += state.swept.bytes;
    bool retires = state.retires || quarantine_on; /* else they have no pointers, see gc.c */
    statistics->reclaimed_blocks += state.swept.blocks - (retires ? state.swept.retired_blocks : 0);
    statistics->held_blocks = state.swept.held_blocks;
    statistics->held_bytes = state.swept.held_bytes;
    statistics->suspected_blocks += state.swept.suspected_blocks;
    statistics->suspected_bytes += state.swept.suspect_bytes;
    statistics->suspects = state.swept.suspects;
    statistics->newly_suspected = state.swept.suspected_blocks;
    statistics->pointed_to += state.swept.pointed_to;
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

/* Minor and full collections apart; state.rescanned_bytes becomes those of this one. */
static void count_generation(const struct collection *collection)
{
    struct collect_statistics *statistics = &state.statistics;
    struct collect_kind *kind = state.minor ? &statistics->minor : &statistics->full;
    count_kind(kind, collection);
    kind->marked_blocks += state.marked.blocks;
    uint64_t rescanned = generations_statistics()->rescanned_bytes;
    state.rescanned_bytes = rescanned - state.rescanned_before;
    state.rescanned_before = rescanned;
}

static void set_pace(const struct collection *collection)
{
    size_t used = blocks_used_bytes();
    struct pace_report report = {
        .used = used > state.swept.empty_bytes ? used - state.swept.empty_bytes : 0,
        .allocated = blocks_taken_bytes(),
        .requested = state.requested,
        .live = state.old_bytes,
        .minor = state.minor,
        .ready = generations_are_ready(),
        .promoted = state.swept.promoted_bytes,
        .unswept = state.is_unswept,
        .followed = state.swept.promoted_bytes + state.rescanned_bytes,
        .freed = state.swept.bytes + state.swept.suspect_bytes, /* what the program forgot */
        .roots = ends_snapshot_cycle() ? state.snapshot_root_bytes
                                       : collection->roots.bytes + collection->roots.indirect_bytes,
        .pause_ns = collection->pause_ns,
        .mark_ns = collection->mark_ns,
        .fixed_ns = collection->stop_ns + collection->root_ns,
        .ran_ns = collection->ran_ns,
        .slices_ns = state.stop_kind == LAST_STOP ? concurrent_ns() : 0,
    };
    pace_collected(&report);
}

/* All slabs are swept. */
static void count_late_sweep(void)
{
    state.is_unswept = false;
    sweep_end_late(&state.swept);
    count_swept();
    state.old_bytes = state.swept.live_bytes;
    pace_swept(state.swept.promoted_bytes);
    if (generations_are_on() && !pace_has_minors())
        generations_rest();
}

/* [swept-before-stop] */
static void end_sweep(void)
{
    if (!state.is_unswept)
        return;
    blocks_sweep_rest();
    count_late_sweep();
}

static void finish(const struct collection *collection)
{
    if (!collection->reclaimed) {
        pace_given_up(blocks_used_bytes(), blocks_taken_bytes(), state.requested);
        return;
    }
    if (only_begins()) {
        count_kind(state.stop_kind == FIRST_STOP ? &state.statistics.first_stop
                                                 : &state.statistics.leak_stop,
                   collection);
        return;
    }
    count_work();
    if (!state.is_unswept)
        count_swept();
    count_generation(collection);
    set_pace(collection);
    if (pace_headroom() > 0)
        blocks_retain(pace_headroom());
    if (state.minor)
        blocks_young_swept();
    else if (state.is_unswept)
        blocks_swept_late();
    else
        blocks_swept();
    if (generations_are_on() && !pace_has_minors())
        generations_rest();
    if (state.marked.suspect)
        collect_suspect_pointed_to(state.marked.suspect, state.marked.suspect_bytes);
}

static const struct collector collector = {.prepare = prepare,
                                           .begin = begin,
                                           .mark = mark_reachable,
                                           .again = mark_again,
                                           .begin_in_snapshot = begin_in_snapshot,
                                           .mark_in_snapshot = mark_in_snapshot,
                                           .sweep = sweep_unmarked,
                                           .abandon = abandon,
                                           .finish = finish};

bool collect_init(const struct collect_options *options)
{
    fork_chain_add(&state.lock);
    state.markers = options->markers;
    state.leaks = options->leaks;
    state.retires = options->retires;
    state.tells_hiders = options->tells_hiders;
    bool works = mark_init(options->markers, options->stack_bytes) &&
                 collection_init(&state.driver, &collector);
    if (works && options->generations)
        generations_init(options->dirty);
    if (works && options->verify)
        verify_init();
    if (works && options->concurrent)
        concurrent_init(options->uses_snapshots);
    state.uses_snapshots = options->uses_snapshots;
    if (works && options->uses_snapshots)
        excepted_init();
    if (!generations_are_on())
        pace_without_minors();
    return works;
}

/* every=N is for tests: all kinds. */
enum { FULL_OF_EVERY = 8, FULL_OF_EVERY_CONCURRENT = 2 };

static bool wants_minor(enum collect_cause cause)
{
    if (!generations_are_ready())
        return false;
    if (cause == CAUSE_VERIFY)
        return true;
    if (cause == CAUSE_EVERY)
        return state.driver.statistics.collections %
                   (concurrent_is_on() ? FULL_OF_EVERY_CONCURRENT : FULL_OF_EVERY) !=
               0;
    return cause == CAUSE_FULL && pace_wants_minor();
}

static bool may_make_snapshot(void)
{
    return state.uses_snapshots && snapshot_is_possible();
}

static bool wants_cycle(enum collect_cause cause)
{
    if (!(may_make_snapshot() || concurrent_has_slices()) || state.is_full)
        return false;
    return cause == CAUSE_EVERY || cause == CAUSE_CYCLE ||
           (cause == CAUSE_FULL && pace_wants_cycle());
}

/* Looks whether the snapshot is done. If it has failed, the cycle is given up. wait: waits for its
 * end, at most some 10 s, since somebody may have stopped the child; then the cycle is given up. */
static void await_copy(bool wait)
{
    enum { NAP_NS = 200000, PATIENCE_NAPS = 50000 };
    static const struct timespec nap = {.tv_nsec = NAP_NS};
    enum snapshot_state found = snapshot_look(&state.cycle_snapshot, true);
    for (unsigned naps = 0; wait && found == SNAPSHOT_RUNS && naps < PATIENCE_NAPS; naps++) {
        SYSCALL_2(SYS_nanosleep, &nap, NULL);
        found = snapshot_look(&state.cycle_snapshot, true);
    }
    if (found == SNAPSHOT_DONE)
        concurrent_take_snapshot();
    else if (wait || found != SNAPSHOT_RUNS)
        give_up_cycle();
}

/* Takes over marks of the snapshot if it is done. all: waits for the snapshot and takes over all of
 * its marks; else some. */
static void take_copy(bool all)
{
    if (!concurrent_takes_snapshot())
        await_copy(all);
    if (!concurrent_takes_snapshot() || snapshot_cycle_take_some(&state.cycle_snapshot, all))
        return;
    state.taken = snapshot_cycle_taken(&state.cycle_snapshot);
    state.snapshot_root_bytes = state.cycle_snapshot.report->root_bytes;
    concurrent_snapshot_taken(state.cycle_snapshot.report->cpu_ns);
    snapshot_end(&state.cycle_snapshot);
}

/* Whether a cycle may prepare pages in slices, before its first stop. Of every=N each other one
 * does. */
static bool may_prepare_in_slices(enum collect_cause cause)
{
    bool is_odd = concurrent_statistics()->cycles % 2 == 1;
    return cause == CAUSE_FULL || (cause == CAUSE_EVERY && is_odd);
}

/* Chooses what this collection does. A collection that the program asks for must begin now, so a
 * cycle under way is given up then. */
static enum stop_kind next_part(enum collect_cause cause)
{
    bool goes_on = cause == CAUSE_FULL || cause == CAUSE_EVERY || cause == CAUSE_CYCLE;
    if (concurrent_awaits_snapshot() && goes_on)
        take_copy(true);
    if (concurrent_runs() && goes_on)
        return concurrent_has_marks() ? LAST_STOP : FIRST_STOP;
    give_up_cycle();
    state.minor = wants_minor(cause);
    state.marks_in_snapshot = false;
    if (state.minor || !wants_cycle(cause))
        return WHOLE;
    state.marks_in_snapshot = may_make_snapshot();
    bool prepares = !state.marks_in_snapshot || snapshot_cycle_begin();
    return prepares && may_prepare_in_slices(cause) ? NO_STOP : FIRST_STOP;
}

/* The live bytes by which a cycle's slices are paced. Before the first marking they are not known,
 * and all used bytes stand for them. */
static size_t expected_live(void)
{
    return state.old_bytes > 0 ? state.old_bytes : blocks_used_bytes();
}

/* The stop may have cleared marks before it failed, so the next collection must be a full one. */
static void fail_first_stop(void)
{
    give_up_cycle();
    state.is_full = true;
}

/* No cycle has begun where there is no child. */
static void begin_forked_cycle(void)
{
    bool begun = snapshot_cycle_prepare(&state.cycle_snapshot) &&
                 collection_run_snapshot(&state.driver, &state.cycle_snapshot) &&
                 snapshot_look(&state.cycle_snapshot, false) != SNAPSHOT_NO_CHILD;
    if (begun) {
        concurrent_begin_in_snapshot(pace_room_of_cycle(), expected_live());
        return;
    }
    fail_first_stop();
}

/* With the locks. False: nothing was reclaimed. */
static bool run_part(void)
{
    switch (state.stop_kind) {
    case NO_STOP:
        if (state.marks_in_snapshot)
            concurrent_begin_gathering(pace_room_of_cycle());
        else
            concurrent_begin_protecting(pace_room_of_cycle(), expected_live());
        return false;
    case FIRST_STOP:
        if (state.marks_in_snapshot)
            begin_forked_cycle();
        else if (collection_run_first_stop(&state.driver))
            concurrent_begin(pace_room_of_cycle(), expected_live());
        else
            fail_first_stop();
        return false;
    default:
        break;
    }
    bool reclaimed = ends_snapshot_cycle() ? collection_run_marked(&state.driver)
                                           : collection_run(&state.driver);
    if (state.stop_kind == LAST_STOP && reclaimed)
        concurrent_end(false);
    else
        give_up_cycle();
    if (reclaimed && state.stop_kind == WHOLE && !state.minor)
        state.is_full = false;
    return reclaimed;
}

/* Whether another thread has begun a cycle since the collection was found to be due. */
static bool is_too_early(enum collect_cause cause)
{
    return cause == CAUSE_FULL && concurrent_runs() && !concurrent_is_to_stop();
}

static bool is_possible(size_t requested)
{
    if (collection_is_possible(&state.driver))
        return true;
    pace_given_up(blocks_used_bytes(), blocks_taken_bytes(), requested);
    return false;
}

/* With the collector's lock. Takes the heap's. */
static void begin_locked(enum collect_cause cause, size_t requested)
{
    mark_prepare();
    snapshot_reap(&state.leak_search);
    snapshot_reap(&state.cycle_snapshot);
    blocks_lock();
    state.cause = cause;
    state.requested = requested;
    state.minor = false;
}

/* With the collector's lock. */
static bool collect_locked(enum collect_cause cause, size_t requested)
{
    begin_locked(cause, requested);
    if (generations_are_on())
        end_sweep(); /* the pace asks what was promoted */
    state.stop_kind = next_part(cause);
    if (state.stop_kind != NO_STOP)
        end_sweep(); /* else slices do it */
    bool reclaimed = run_part();
    if (reclaimed)
        atomic_fetch_add(&state.finished, 1);
    blocks_unlock();
    return reclaimed;
}

bool collect(enum collect_cause cause, size_t requested)
{
    uint64_t finished = atomic_load(&state.finished);
    if (!is_possible(requested))
        return false;
    lock_acquire(&state.lock);
    bool done = atomic_load(&state.finished) != finished && cause < CAUSE_ASKED;
    bool reclaimed = done; /* another thread has just done it */
    if (!done && !is_too_early(cause))
        reclaimed = collect_locked(cause, requested);
    lock_release(&state.lock);
    return reclaimed;
}

static enum leaks_found why_unknown(void)
{
    return collection_is_put_off(&state.driver) ? LEAKS_LATER : LEAKS_UNKNOWN;
}

/* Without may_wait the caller is in a signal handler, with all signals blocked. The holder of the
 * lock may be waiting for this very thread to stop, so the caller must not wait for the lock. */
static bool lock_for_leaks(bool may_wait)
{
    if (may_wait)
        lock_acquire(&state.lock);
    return may_wait || lock_try(&state.lock);
}

enum leaks_found collect_find_leaks(leak_visitor *visit, void *argument, bool may_wait)
{
    if (!is_possible(0))
        return why_unknown();
    if (!lock_for_leaks(may_wait))
        return LEAKS_LATER;
    snapshot_end(&state.leak_search);
    state.leak_visitor = visit;
    state.leak_argument = argument;
    state.leaks_are_found = false;
    bool found = collect_locked(CAUSE_LEAKS, 0) && state.leaks_are_found;
    lock_release(&state.lock);
    return found ? LEAKS_FOUND : why_unknown();
}

/* With the collector's lock. */
static bool begin_leaks_locked(void)
{
    begin_locked(CAUSE_LEAKS, 0);
    end_sweep();
    give_up_cycle();
    state.stop_kind = LEAK_STOP;
    bool begun = snapshot_prepare(&state.leak_search, 0) &&
                 collection_run_snapshot(&state.driver, &state.leak_search) &&
                 snapshot_look(&state.leak_search, false) != SNAPSHOT_NO_CHILD;
    if (!begun)
        snapshot_end(&state.leak_search);
    blocks_unlock();
    return begun;
}

enum leaks_found collect_begin_leaks(leak_visitor *visit, void *argument, bool may_wait)
{
    if (!snapshot_is_possible())
        return LEAKS_UNKNOWN;
    if (!is_possible(0))
        return why_unknown();
    if (!lock_for_leaks(may_wait))
        return LEAKS_LATER;
    state.leak_visitor = visit;
    state.leak_argument = argument;
    bool begun = begin_leaks_locked();
    lock_release(&state.lock);
    return begun ? LEAKS_BEGUN : LEAKS_UNKNOWN;
}

/* Called often: the kernel is asked but now and then. */
enum leaks_found collect_leaks_begun(void)
{
    enum { KERNEL_LOOKS = 64 };
    if (!collection_is_allowed(&state.driver))
        return why_unknown();
    if (!lock_try(&state.lock))
        return LEAKS_LATER;
    enum snapshot_state found =
        snapshot_look(&state.leak_search, state.looks++ % KERNEL_LOOKS == 0);
    bool goes_on = found == SNAPSHOT_RUNS || !snapshot_is_reaped(&state.leak_search);
    if (!goes_on)
        snapshot_end(&state.leak_search);
    lock_release(&state.lock);
    return goes_on ? LEAKS_LATER : found == SNAPSHOT_DONE ? LEAKS_FOUND : LEAKS_UNKNOWN;
}

bool collect_has_snapshots(void)
{
    return state.uses_snapshots && concurrent_is_on();
}

bool collect_cycle_runs(void)
{
    return concurrent_runs();
}

/* Before a snapshot is prepared. False: all is swept. */
static bool sweep_some(void)
{
    if (!state.is_unswept || !concurrent_gathers())
        return false;
    if (!blocks_sweep_some(&state.next_swept, SLABS_OF_STEP))
        count_late_sweep();
    return true;
}

static void slice(size_t work)
{
    uint64_t begun_ns = monotonic_ns();
    if (concurrent_awaits_snapshot())
        take_copy(concurrent_is_overdue());
    else if (!sweep_some()) {
        concurrent_slice(work);
        return;
    }
    concurrent_did_slice(monotonic_ns() - begun_ns);
}

void collect_slice(size_t work)
{
    lock_acquire(&state.lock);
    blocks_lock();
    if (!collection_is_allowed(&state.driver))
        give_up_cycle();
    if (concurrent_runs())
        collection_run_slice(&state.driver, slice, work);
    blocks_unlock();
    lock_release(&state.lock);
}

/* One thread is enough: the others go on. `busy` is set and cleared inside of an operation, so no
 * fork comes in between ([still-heap], vm/freeze.h). Else it would stay set in the child. */
bool collect_some(void)
{
    static _Atomic bool busy;
    if ((!concurrent_is_due() && !concurrent_is_to_stop()) || atomic_exchange(&busy, true))
        return false;
    collect_slice(0);
    bool ended = concurrent_runs() && concurrent_is_to_stop() && collect(CAUSE_FULL, 0);
    atomic_store(&busy, false);
    return ended;
}

/* A cycle that has marked a part of all, by slices. */
static void verify_cycle(void)
{
    enum { SLICES = 4, SLICE_WORK = 16 << 10 };
    collect(CAUSE_CYCLE, 0);
    for (unsigned i = 0; i < SLICES; i++)
        collect_slice(SLICE_WORK);
    if (concurrent_runs())
        collect(CAUSE_CYCLE, 0);
}

void collect_to_verify(void)
{
    if (!verify_is_on())
        return;
    if (generations_are_ready() && !concurrent_runs())
        collect(CAUSE_VERIFY, 0);
    if (concurrent_is_on())
        verify_cycle();
}

void collect_keep_leaks(void)
{
    state.leaks = SWEEP_KEEP;
}

bool collect_works(void)
{
    return collection_works(&state.driver);
}

/* In a vfork child the helpers are another process's, and so are snapshots. */
bool collect_before_exec(void)
{
    if (!collection_before_exec(&state.driver))
        return false;
    mark_wait_for_helpers(); /* [no-helper-at-rest] */
    snapshot_kill(&state.leak_search);
    snapshot_kill(&state.cycle_snapshot);
    return true;
}

void collect_after_exec(void)
{
    collection_after_exec(&state.driver);
}

void collect_before_hiding(void)
{
    if (!collection_is_of_this_process(&state.driver))
        return;
    lock_acquire(&state.lock);
    collection_before_hiding(&state.driver);
    lock_release(&state.lock);
}

bool collect_is_available(void)
{
    return collection_is_available(&state.driver);
}

/* In a child by number the locks may be held for ever. */
bool collect_never_again(void)
{
    if (!collection_is_of_this_process(&state.driver))
        return false;
    lock_acquire(&state.lock);
    blocks_lock();
    end_sweep();
    give_up_cycle();
    blocks_unlock();
    bool changed = collection_never_again(&state.driver);
    if (changed) {
        mark_wait_for_helpers(); /* [no-helper-at-rest] */
        snapshot_kill(&state.leak_search);
        snapshot_kill(&state.cycle_snapshot);
    }
    lock_release(&state.lock);
    return changed;
}

const struct collect_statistics *collect_statistics(void)
{
    return &state.statistics;
}

void collect_counters(counter_visitor *visit)
{
    collection_counters(&state.driver, visit);
    visit("gc_freed_bytes", &state.statistics.freed_bytes);
    if (generations_are_on())
        visit("gc_minor_collections", &state.statistics.minor.collections);
}

void collect_fork_child(void)
{
    if (state.driver.available)
        mark_forget_helpers();
    collection_forked(&state.driver);
    snapshot_forget(&state.leak_search);
    snapshot_forget(&state.cycle_snapshot);
    give_up_cycle();
    generations_fork_child();
    if (!generations_are_on())
        pace_without_minors();
}
