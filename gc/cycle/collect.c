/* SPDX-License-Identifier: MIT
 *
 * collect.c: the collections of `gc`: which kind is due, and who may begin one. What each does is
 * in collect_steps.c.
 *
 * A full collection may be a cycle (concurrent.h): two stops, of which the first ends after the
 * roots, and slices between them.
 *
 * A fork waits for collect_state.lock. So it comes between two collections, or between the stops of
 * a cycle, or while slabs wait for a late sweep. The child gives a cycle up ([given up is full]).
 * It has the marks and numbers of a late sweep, and goes on with it (alloc/blocks/late_sweep.h).
 *
 * A thread that waited for another's collection does not begin its own: `finished` tells.
 */
#include "gc/cycle/collect.h"

#include "alloc/blocks/blocks.h"
#include "gc/cycle/collect_state.h"
#include "gc/cycle/concurrent.h"
#include "gc/cycle/generations.h"
#include "gc/cycle/pace.h"
#include "gc/cycle/verify.h"
#include "gc/world/excepted.h"
#include "vm/clock.h"
#include "vm/fork_chain.h"
#include "vm/syscall.h"

struct collect_state collect_state = {.lock = LOCK_INITIALIZER(RANK_COLLECTOR),
                                      .cycle_snapshot.withholds = true,
                                      .statistics.driver = &collect_state.driver.statistics};

bool collect_init(const struct collect_options *options)
{
    fork_chain_add(&collect_state.lock);
    collect_state.markers = options->markers;
    collect_state.leaks = options->leaks;
    collect_state.retires = options->retires;
    collect_state.tells_hiders = options->tells_hiders;
    bool works = mark_init(options->markers, options->stack_bytes) &&
                 collection_init(&collect_state.driver, &collect_steps);
    if (works && options->generations)
        generations_init(options->dirty);
    if (works && options->verify)
        verify_init();
    if (works && options->concurrent)
        concurrent_init(options->uses_snapshots);
    collect_state.uses_snapshots = options->uses_snapshots;
    if (works && options->uses_snapshots)
        excepted_init();
    if (!generations_are_on())
        pace_without_minors();
    return works;
}

/* every=N is for tests. So that they meet all kinds, every so many-th of these collections is a
 * full one, and the others are minor. */
enum { FULL_OF_EVERY = 8, FULL_OF_EVERY_CONCURRENT = 2 };

static bool wants_minor(enum collect_cause cause)
{
    if (!generations_are_ready())
        return false;
    if (cause == CAUSE_VERIFY)
        return true;
    if (cause == CAUSE_EVERY)
        return collect_state.driver.statistics.collections %
                   (concurrent_is_on() ? FULL_OF_EVERY_CONCURRENT : FULL_OF_EVERY) !=
               0;
    return cause == CAUSE_FULL && pace_wants_minor();
}

static bool may_make_snapshot(void)
{
    return collect_state.uses_snapshots && snapshot_is_possible();
}

static bool wants_cycle(enum collect_cause cause)
{
    if (!(may_make_snapshot() || concurrent_has_slices()) || collect_state.is_full)
        return false;
    return cause == CAUSE_EVERY || cause == CAUSE_CYCLE ||
           (cause == CAUSE_FULL && pace_wants_cycle());
}

/* Looks whether the snapshot is done. If it has failed, the cycle is given up. wait: waits for its
 * end, at most some 10 s, since somebody may have stopped the child; then the cycle is given up. */
static void await_snapshot(bool wait)
{
    enum { NAP_NS = 200000, PATIENCE_NAPS = 50000 };
    static const struct timespec nap = {.tv_nsec = NAP_NS};
    enum snapshot_state found = snapshot_look(&collect_state.cycle_snapshot, true);
    for (unsigned naps = 0; wait && found == SNAPSHOT_RUNS && naps < PATIENCE_NAPS; naps++) {
        SYSCALL_2(SYS_nanosleep, &nap, NULL);
        found = snapshot_look(&collect_state.cycle_snapshot, true);
    }
    if (found == SNAPSHOT_DONE)
        concurrent_take_snapshot();
    else if (wait || found != SNAPSHOT_RUNS)
        collect_give_up_cycle();
}

/* Takes over marks of the snapshot if it is done. all: waits for the snapshot and takes over all of
 * its marks; else some. */
static void take_snapshot_marks(bool all)
{
    if (!concurrent_takes_snapshot())
        await_snapshot(all);
    if (!concurrent_takes_snapshot() ||
        snapshot_cycle_take_some(&collect_state.cycle_snapshot, all))
        return;
    collect_state.taken = snapshot_cycle_taken(&collect_state.cycle_snapshot);
    collect_state.snapshot_root_bytes = collect_state.cycle_snapshot.report->root_bytes;
    concurrent_snapshot_taken(collect_state.cycle_snapshot.report->cpu_ns);
    snapshot_end(&collect_state.cycle_snapshot);
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
static enum stop_kind next_stop(enum collect_cause cause)
{
    bool goes_on = cause == CAUSE_FULL || cause == CAUSE_EVERY || cause == CAUSE_CYCLE;
    if (concurrent_awaits_snapshot() && goes_on)
        take_snapshot_marks(true);
    if (concurrent_runs() && goes_on)
        return concurrent_has_marks() ? LAST_STOP : FIRST_STOP;
    collect_give_up_cycle();
    collect_state.minor = wants_minor(cause);
    collect_state.marks_in_snapshot = false;
    if (collect_state.minor || !wants_cycle(cause))
        return WHOLE;
    collect_state.marks_in_snapshot = may_make_snapshot();
    bool prepares = !collect_state.marks_in_snapshot || snapshot_cycle_begin();
    return prepares && may_prepare_in_slices(cause) ? NO_STOP : FIRST_STOP;
}

/* The live bytes by which a cycle's slices are paced. Before the first marking they are not known,
 * and all used bytes stand for them. */
static size_t expected_live(void)
{
    return collect_state.old_bytes > 0 ? collect_state.old_bytes : blocks_used_bytes();
}

/* The stop may have cleared marks before it failed, so the next collection must be a full one. */
static void fail_first_stop(void)
{
    collect_give_up_cycle();
    collect_state.is_full = true;
}

/* No cycle has begun where there is no child: [failed is nothing] (gc/world/snapshot.h). */
static void begin_snapshot_cycle(void)
{
    bool begun = snapshot_cycle_prepare(&collect_state.cycle_snapshot) &&
                 collection_run_snapshot(&collect_state.driver, &collect_state.cycle_snapshot) &&
                 snapshot_look(&collect_state.cycle_snapshot, false) != SNAPSHOT_NO_CHILD;
    if (begun) {
        concurrent_begin_in_snapshot(pace_room_of_cycle(), expected_live());
        return;
    }
    fail_first_stop();
}

/* With the locks. False: nothing was reclaimed. */
static bool run_stop(void)
{
    switch (collect_state.stop_kind) {
    case NO_STOP:
        if (collect_state.marks_in_snapshot)
            concurrent_begin_gathering(pace_room_of_cycle());
        else
            concurrent_begin_protecting(pace_room_of_cycle(), expected_live());
        return false;
    case FIRST_STOP:
        if (collect_state.marks_in_snapshot)
            begin_snapshot_cycle();
        else if (collection_run_first_stop(&collect_state.driver))
            concurrent_begin(pace_room_of_cycle(), expected_live());
        else
            fail_first_stop();
        return false;
    default:
        break;
    }
    bool reclaimed = ends_snapshot_cycle() ? collection_run_marked(&collect_state.driver)
                                           : collection_run(&collect_state.driver);
    if (collect_state.stop_kind == LAST_STOP && reclaimed)
        concurrent_end(false);
    else
        collect_give_up_cycle();
    if (reclaimed && collect_state.stop_kind == WHOLE && !collect_state.minor)
        collect_state.is_full = false;
    return reclaimed;
}

/* Whether another thread has begun a cycle since the collection was found to be due. */
static bool is_too_early(enum collect_cause cause)
{
    return cause == CAUSE_FULL && concurrent_runs() && !concurrent_is_to_stop();
}

static bool is_possible(size_t requested)
{
    if (collection_is_possible(&collect_state.driver))
        return true;
    pace_given_up(blocks_used_bytes(), blocks_taken_bytes(), requested);
    return false;
}

/* With the collector's lock. Takes the heap's. */
static void begin_locked(enum collect_cause cause, size_t requested)
{
    mark_prepare();
    snapshot_reap(&collect_state.leak_search);
    snapshot_reap(&collect_state.cycle_snapshot);
    blocks_lock();
    collect_state.cause = cause;
    collect_state.requested = requested;
    collect_state.minor = false;
}

/* With the collector's lock. */
static bool collect_locked(enum collect_cause cause, size_t requested)
{
    begin_locked(cause, requested);
    if (generations_are_on())
        collect_end_sweep(); /* the pace asks what was promoted */
    collect_state.stop_kind = next_stop(cause);
    if (collect_state.stop_kind != NO_STOP)
        collect_end_sweep(); /* else slices do it */
    bool reclaimed = run_stop();
    if (reclaimed)
        atomic_fetch_add(&collect_state.finished, 1);
    blocks_unlock();
    return reclaimed;
}

bool collect(enum collect_cause cause, size_t requested)
{
    uint64_t finished = atomic_load(&collect_state.finished);
    if (!is_possible(requested))
        return false;
    lock_acquire(&collect_state.lock);
    bool done = atomic_load(&collect_state.finished) != finished && cause < CAUSE_ASKED;
    bool reclaimed = done; /* another thread has just done it */
    if (!done && !is_too_early(cause))
        reclaimed = collect_locked(cause, requested);
    lock_release(&collect_state.lock);
    return reclaimed;
}

static enum leaks_found why_unknown(void)
{
    return collection_is_put_off(&collect_state.driver) ? LEAKS_LATER : LEAKS_UNKNOWN;
}

/* Without may_wait the caller is in a signal handler, with all signals blocked. The holder of the
 * lock may be waiting for this very thread to stop, so the caller must not wait for the lock. */
static bool lock_for_leaks(bool may_wait)
{
    if (may_wait)
        lock_acquire(&collect_state.lock);
    return may_wait || lock_try(&collect_state.lock);
}

enum leaks_found collect_find_leaks(leak_visitor *visit, void *argument, bool may_wait)
{
    if (!is_possible(0))
        return why_unknown();
    if (!lock_for_leaks(may_wait))
        return LEAKS_LATER;
    snapshot_end(&collect_state.leak_search);
    collect_state.leak_visitor = visit;
    collect_state.leak_argument = argument;
    collect_state.leaks_are_found = false;
    bool found = collect_locked(CAUSE_LEAKS, 0) && collect_state.leaks_are_found;
    lock_release(&collect_state.lock);
    return found ? LEAKS_FOUND : why_unknown();
}

/* With the collector's lock. */
static bool begin_leaks_locked(void)
{
    begin_locked(CAUSE_LEAKS, 0);
    collect_end_sweep();
    collect_give_up_cycle();
    collect_state.stop_kind = LEAK_STOP;
    bool begun = snapshot_prepare(&collect_state.leak_search, 0) &&
                 collection_run_snapshot(&collect_state.driver, &collect_state.leak_search) &&
                 snapshot_look(&collect_state.leak_search, false) != SNAPSHOT_NO_CHILD;
    if (!begun)
        snapshot_end(&collect_state.leak_search);
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
    collect_state.leak_visitor = visit;
    collect_state.leak_argument = argument;
    bool begun = begin_leaks_locked();
    lock_release(&collect_state.lock);
    return begun ? LEAKS_BEGUN : LEAKS_UNKNOWN;
}

/* Called often: the kernel is asked but now and then. */
enum leaks_found collect_leaks_begun(void)
{
    enum { KERNEL_LOOKS = 64 };
    if (!collection_is_allowed(&collect_state.driver))
        return why_unknown();
    if (!lock_try(&collect_state.lock))
        return LEAKS_LATER;
    enum snapshot_state found =
        snapshot_look(&collect_state.leak_search, collect_state.looks++ % KERNEL_LOOKS == 0);
    bool goes_on = found == SNAPSHOT_RUNS || !snapshot_is_reaped(&collect_state.leak_search);
    if (!goes_on)
        snapshot_end(&collect_state.leak_search);
    lock_release(&collect_state.lock);
    return goes_on ? LEAKS_LATER : found == SNAPSHOT_DONE ? LEAKS_FOUND : LEAKS_UNKNOWN;
}

bool collect_has_snapshots(void)
{
    return collect_state.uses_snapshots && concurrent_is_on();
}

bool collect_cycle_runs(void)
{
    return concurrent_runs();
}

/* Before a snapshot is prepared. False: all is swept. */
static bool sweep_some(void)
{
    if (!collect_state.is_unswept || !concurrent_gathers())
        return false;
    if (!blocks_sweep_some(&collect_state.next_swept, SLABS_OF_STEP))
        collect_count_late_sweep();
    return true;
}

static void slice(size_t work)
{
    uint64_t begun_ns = monotonic_ns();
    if (concurrent_awaits_snapshot())
        take_snapshot_marks(concurrent_is_overdue());
    else if (!sweep_some()) {
        concurrent_slice(work);
        return;
    }
    concurrent_did_slice(monotonic_ns() - begun_ns);
}

void collect_slice(size_t work)
{
    lock_acquire(&collect_state.lock);
    blocks_lock();
    if (!collection_is_allowed(&collect_state.driver))
        collect_give_up_cycle();
    if (concurrent_runs())
        collection_run_slice(&collect_state.driver, slice, work);
    blocks_unlock();
    lock_release(&collect_state.lock);
}

/* One thread is enough: the others go on. `busy` is set and cleared inside of an operation, so no
 * fork comes in between ([still heap], vm/freeze.h). Else it would stay set in the child. */
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
    collect_state.leaks = SWEEP_KEEP;
}

bool collect_works(void)
{
    return collection_works(&collect_state.driver);
}

static void end_helpers(void)
{
    mark_wait_for_helpers(); /* [no helper at rest] */
    snapshot_kill(&collect_state.leak_search);
    snapshot_kill(&collect_state.cycle_snapshot);
}

/* In a vfork child the helpers are another process's, and so are snapshots. */
bool collect_before_exec(void)
{
    if (!collection_before_exec(&collect_state.driver))
        return false;
    end_helpers();
    return true;
}

void collect_after_exec(void)
{
    collection_after_exec(&collect_state.driver);
}

/* A handler that interrupted the holder of a lock keeps nothing. Collections may be given up then.
 */
void collect_before_hiding(void)
{
    if (!collection_is_of_this_process(&collect_state.driver) || fork_chain_is_interrupted())
        return;
    lock_acquire(&collect_state.lock);
    collection_before_hiding(&collect_state.driver);
    lock_release(&collect_state.lock);
}

bool collect_is_available(void)
{
    return collection_is_available(&collect_state.driver);
}

/* What the last collection has left to do. */
static void end_work(void)
{
    lock_acquire(&collect_state.lock);
    blocks_lock();
    collect_end_sweep();
    collect_give_up_cycle();
    blocks_unlock();
    lock_release(&collect_state.lock);
}

/* A handler that interrupted the holder of a lock leaves that work to allocations. */
bool collect_never_again(void)
{
    if (!collection_never_again(&collect_state.driver))
        return false;
    if (!fork_chain_is_interrupted())
        end_work();
    end_helpers();
    return true;
}

const struct collect_statistics *collect_statistics(void)
{
    return &collect_state.statistics;
}

void collect_counters(counter_visitor *visit)
{
    collection_counters(&collect_state.driver, visit);
    visit("gc_freed_bytes", &collect_state.statistics.freed_bytes);
    if (generations_are_on())
        visit("gc_minor_collections", &collect_state.statistics.minor.collections);
}

void collect_fork_child(void)
{
    if (collect_state.driver.available)
        mark_forget_helpers();
    collection_forked(&collect_state.driver);
    snapshot_forget(&collect_state.leak_search);
    snapshot_forget(&collect_state.cycle_snapshot);
    collect_give_up_cycle();
    generations_fork_child();
    if (!generations_are_on())
        pace_without_minors();
}
