/* SPDX-License-Identifier: MIT
 *
 * collect.c: one collection.
 *
 *     take the collector's lock, then the heap's        so that nobody who is stopped holds it
 *     block all signals                                 a handler must not run in a stopped world
 *     stop every other thread                           stop.c     } the pause
 *     mark from everything outside the heap             roots.c, mark.c
 *     free what has no mark                             sweep.c
 *     let the threads go on                                        }
 *     give large dead blocks back, set the pace         pace.c
 *
 * It runs on a stack of its own, since the thread that ran out of memory may be on a coroutine's,
 * with only a few kilobytes left. Before it leaves its own it puts its registers there; vector
 * registers hold nothing at a call that they could keep.
 *
 * Whatever goes wrong before the sweep, nothing is reclaimed, the heap grows instead, and the
 * statistics say so. When it goes wrong again and again nobody must wait for collections any more:
 * collect_works tells.
 */
#include "gc/cycle/collect.h"

#include <signal.h>

#include "alloc/blocks/blocks.h"
#include "gc/world/call_on_stack.h"
#include "gc/mark/mark.h"
#include "vm/private_memory.h"
#include "gc/cycle/pace.h"
#include "vm/kernel/process.h"
#include "vm/kernel/resident.h"
#include "gc/world/roots.h"
#include "gc/cycle/sweep.h"
#include "gc/world/traced.h"
#include "vm/clock.h"
#include "vm/fork_chain.h"
#include "vm/histogram.h"
#include "vm/lock.h"
#include "vm/metadata.h"
#include "vm/pages.h"
#include "vm/syscall.h"

enum { STACK_BYTES = 64 << 10 };

/* So many collections given up one after the other are no accident. */
enum { HOPELESS = 3 };

static struct {
    struct lock lock; /* of all that follows */
    _Atomic bool available;
    _Atomic unsigned failures; /* since the last that was not given up */
    unsigned markers;
    long process;
    char *stack;
    _Atomic uint64_t finished; /* collections that were not given up */
    uint64_t ended_ns;         /* when the last one was over */
    enum collect_cause cause;
    size_t wanted;
    bool reclaimed;
    struct collect_statistics statistics;
} state = {.lock = LOCK_INITIALIZER(RANK_COLLECTOR)};

bool collect_init(unsigned markers, size_t stack_bytes)
{
    fork_chain_add(&state.lock);
    state.markers = markers;
    state.process = SYSCALL_0(SYS_getpid);
    state.ended_ns = monotonic_ns();
    state.stack = private_memory_map(STACK_BYTES);
    state.available = state.stack && process_open() && stop_init() && roots_init() &&
                      mark_init(markers, stack_bytes);
    return state.available;
}

/* The work, and the account of it. */

struct times {
    uint64_t begun, stopped, rooted, marked, swept, resumed;
};

static void count_pause(uint64_t pause_ns)
{
    struct collect_statistics *statistics = &state.statistics;
    statistics->pauses[histogram_bucket(pause_ns / 1000, PAUSE_BUCKETS)]++;
    statistics->pause_ns += pause_ns;
    if (pause_ns > statistics->longest_pause_ns)
        statistics->longest_pause_ns = pause_ns;
}

static void count_times(const struct times *times)
{
    struct collect_statistics *statistics = &state.statistics;
    uint64_t stop_ns = times->stopped - times->begun;
    count_pause(times->resumed - times->begun);
    statistics->stop_ns += stop_ns;
    if (stop_ns > statistics->longest_stop_ns)
        statistics->longest_stop_ns = stop_ns;
    statistics->root_ns += times->rooted - times->stopped;
    statistics->mark_ns += times->marked - times->rooted;
    statistics->sweep_ns += times->swept - times->marked;
}

static void count_work(const struct root_result *roots, const struct mark_result *marked,
                       const struct sweep_result *swept)
{
    struct collect_statistics *statistics = &state.statistics;
    statistics->collections++;
    statistics->causes[state.cause]++;
    statistics->root_bytes += roots->bytes;
    statistics->root_indirect_bytes += roots->indirect_bytes;
    statistics->root_mappings = roots->mappings;
    statistics->marked_blocks += marked->blocks;
    statistics->marked_bytes += marked->bytes;
    statistics->mark_overflows += marked->overflows;
    if (marked->markers > statistics->most_markers)
        statistics->most_markers = marked->markers;
    statistics->freed_blocks += swept->blocks;
    statistics->freed_bytes += swept->bytes;
    statistics->live_bytes = swept->live_bytes;
    statistics->stopped_threads = stopped_count();
}

static void set_pace(const struct times *times, const struct root_result *roots,
                     const struct sweep_result *swept)
{
    size_t used = blocks_used_bytes();
    struct pace_report report = {
        .used = used > swept->empty_bytes ? used - swept->empty_bytes : 0,
        .taken = blocks_taken_bytes(),
        .wanted = state.wanted,
        .live = swept->live_bytes,
        .freed = swept->bytes,
        .roots = roots->bytes + roots->indirect_bytes,
        .pause_ns = times->resumed - times->begun,
        .mark_ns = times->marked - times->rooted,
        .ran_ns = times->begun - state.ended_ns,
    };
    pace_collected(&report);
}

static void give_up(uint64_t *counter, uint64_t begun_ns)
{
    ++*counter;
    state.statistics.given_up_ns += monotonic_ns() - begun_ns;
    atomic_fetch_add(&state.failures, 1);
    pace_given_up(blocks_used_bytes(), blocks_taken_bytes(), state.wanted);
}

/* In order of address: which of the two sections comes first is the linker's choice. */
static void find_own(struct root_sink *sink)
{
    const void *state_of_heap;
    size_t bytes;
    blocks_state(&state_of_heap, &bytes);
    metadata_first_chunk(&sink->own[0].start, &sink->own[0].bytes);
    bool after = (uintptr_t)state_of_heap > (uintptr_t)sink->own[0].start;
    if (!after)
        sink->own[1] = sink->own[0];
    sink->own[after].start = state_of_heap;
    sink->own[after].bytes = bytes;
}

static void collect_in_stopped_world(uintptr_t stack_pointer, struct times *times)
{
    struct root_result roots;
    struct mark_result marked;
    struct sweep_result swept;
    times->stopped = monotonic_ns();
    blocks_listed_are_free(true);
    mark_begin();
    struct root_sink sink = {.words = mark_roots,
                             .words_in_code = mark_roots_in_code,
                             .protected_blocks = mark_heeds_protection};
    find_own(&sink);
    doorbell_enter_roots();
    bool read = resident_open() && roots_scan(stack_pointer, &sink, &roots);
    doorbell_leave();
    times->rooted = monotonic_ns();
    doorbell_enter_mark();
    mark_finish(pace_helpers(state.markers - 1), &marked);
    doorbell_leave();
    times->marked = monotonic_ns();
    doorbell_enter_sweep();
    if (read)
        sweep(&swept);
    blocks_listed_are_free(false);
    doorbell_leave();
    times->swept = monotonic_ns();
    if (!read) {
        resume_world();
        give_up(&state.statistics.given_up_roots, times->begun);
        return;
    }
    count_work(&roots, &marked, &swept);
    resume_world();
    times->resumed = monotonic_ns();
    set_pace(times, &roots, &swept);
    if (pace_room() > 0)
        blocks_retain(pace_room());
    blocks_swept();
    count_times(times);
    state.ended_ns = times->resumed;
    state.reclaimed = true;
    atomic_store(&state.failures, 0);
}

/* On the collector's own stack. stack_pointer: of the program's. */
static void stop_and_collect(uintptr_t stack_pointer)
{
    struct times times = {.begun = monotonic_ns()};
    enum stop_failure failure = stop_world();
    if (failure == STOP_DONE)
        collect_in_stopped_world(stack_pointer, &times);
    else
        give_up(&state.statistics.given_up[failure], times.begun);
}

bool collect(enum collect_cause cause, size_t wanted)
{
    uint64_t finished = atomic_load(&state.finished);
    /* A vfork child runs in its parent's memory, but is not it. */
    if (!state.available || SYSCALL_0(SYS_getpid) != state.process) {
        state.statistics.unavailable++;
        pace_given_up(blocks_used_bytes(), blocks_taken_bytes(), wanted);
        return false;
    }
    lock_acquire(&state.lock);
    if (atomic_load(&state.finished) != finished && cause != CAUSE_ASKED) {
        lock_release(&state.lock); /* another thread has just done it */
        return true;
    }
    mark_prepare();
    blocks_lock();
    uint64_t all = ~UINT64_C(0), mask;
    SYSCALL_4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, sizeof mask);
    state.cause = cause;
    state.wanted = wanted;
    state.reclaimed = false;
    doorbell_enter_collector();
    doorbell_collection_begin(state.statistics.collections);
    call_on_stack(stop_and_collect, state.stack + STACK_BYTES);
    doorbell_collection_end(state.statistics.live_bytes);
    doorbell_leave();
    bool reclaimed = state.reclaimed;
    if (reclaimed)
        atomic_fetch_add(&state.finished, 1);
    SYSCALL_4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
    blocks_unlock();
    lock_release(&state.lock);
    return reclaimed;
}

bool collect_works(void)
{
    return atomic_load(&state.available) && atomic_load(&state.failures) < HOPELESS;
}

void collect_before_hiding(void)
{
    lock_acquire(&state.lock);
    if (state.available)
        process_keep_files();
    lock_release(&state.lock);
}

void collect_never_again(void)
{
    lock_acquire(&state.lock);
    if (state.available)
        wait_for_resumed();
    state.available = false;
    lock_release(&state.lock);
}

const struct collect_statistics *collect_statistics(void)
{
    return &state.statistics;
}

void collect_fork_child(void)
{
    state.process = SYSCALL_0(SYS_getpid);
    if (state.available)
        mark_forget_helpers();
    state.available = state.available && process_forked();
}
