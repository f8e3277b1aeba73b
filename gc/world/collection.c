/* SPDX-License-Identifier: MIT
 *
 * collection.c: see collection.h.
 *
 * Before it leaves the program's stack, call_on_stack puts the registers there that a callee must
 * keep. Vector registers hold nothing across a call.
 */
#include "gc/world/collection.h"

#include <sys/mman.h>
#include <time.h>

#include "gc/world/call_on_stack.h"
#include "gc/world/excepted.h"
#include "gc/world/recorder.h"
#include "vm/asked_roots.h"
#include "vm/clock.h"
#include "vm/kernel/process.h"
#include "vm/kernel/resident.h"
#include "vm/own_memory.h"
#include "vm/pages.h"
#include "vm/private_memory.h"
#include "vm/protection_keys.h"
#include "vm/signals.h"
#include "vm/syscall.h"
#include "vm/window.h"

/* One mapping has three things: the stack that collections run on, a page for own_memory.h, and
 * what utilisation.h remembers. */
enum { STACK_BYTES = 64 << 10, STOPS_OFFSET = STACK_BYTES + PAGE_BYTES };

/* So many collections given up one after the other are no accident. */
enum { HOPELESS = 3 };

bool collection_init(struct collection_driver *driver, const struct collector *collector)
{
    driver->collector = collector;
    if (process_is_in_sandbox())
        return false;
    driver->ended_ns = monotonic_ns();
    driver->stack = private_memory_map(STOPS_OFFSET + sizeof(struct utilisation));
    if (driver->stack) {
        own_memory_init(driver->stack + STACK_BYTES);
        driver->statistics.utilisation = (struct utilisation *)(driver->stack + STOPS_OFFSET);
    }
    driver->has_protection_keys = has_protection_keys();
    driver->available = driver->stack && process_open() && stop_init() && roots_init();
    return driver->available;
}

/* Whether there may be any. */

bool collection_is_of_this_process(const struct collection_driver *driver)
{
    return driver->available && memory_is_own();
}

bool collection_is_allowed(const struct collection_driver *driver)
{
    return collection_is_of_this_process(driver) && atomic_load(&driver->execs) == 0;
}

/* The account. */

struct times {
    uint64_t begun, stopped, rooted, marked, swept, resumed;
    uint64_t begun_cpu; /* of the process's own clock */
};

const char *const collection_failures[STOP_FAILURES] = {
    [STOP_NO_THREAD_LIST] = "no_thread_list",
    [STOP_NO_SIGNAL] = "no_signal",
    [STOP_TIMEOUT] = "thread_does_not_stop",
    [STOP_TOO_MANY] = "too_many_threads",
};

void collection_counters(const struct collection_driver *driver, counter_visitor *visit)
{
    const struct collection_statistics *statistics = &driver->statistics;
    visit("gc_collections", &statistics->collections);
    visit("gc_pause_ns", &statistics->pause_ns);
    visit("gc_longest_pause_ns", &statistics->longest_pause_ns);
    visit("gc_live_bytes", &statistics->live_bytes);
    for (unsigned i = 1; i < STOP_FAILURES; i++)
        visit(collection_failures[i], &statistics->given_up[i]);
    visit("roots_unreadable", &statistics->given_up_roots);
    visit("not_available", &statistics->unavailable);
}

static void count_pause(struct collection_statistics *statistics, uint64_t pause_ns)
{
    uint64_t microseconds = pause_ns / 1000;
    unsigned power = microseconds > 0 ? 63 - (unsigned)__builtin_clzl(microseconds) : 0;
    statistics->pauses[power < PAUSE_BUCKETS ? power : PAUSE_BUCKETS - 1]++;
    statistics->pause_ns += pause_ns;
    if (pause_ns > statistics->longest_pause_ns)
        statistics->longest_pause_ns = pause_ns;
}

static void note_times(struct collection *collection, const struct times *times)
{
    collection->pause_ns = times->resumed - times->begun;
    collection->cpu_ns = process_ns() - times->begun_cpu;
    collection->stop_ns = times->stopped - times->begun;
    collection->root_ns = times->rooted - times->stopped;
    collection->mark_ns = times->marked - times->rooted;
    collection->sweep_ns = times->swept - times->marked;
}

static void count_times(struct collection_statistics *statistics,
                        const struct collection *collection)
{
    count_pause(statistics, collection->pause_ns);
    statistics->stop_ns += collection->stop_ns;
    if (collection->stop_ns > statistics->longest_stop_ns)
        statistics->longest_stop_ns = collection->stop_ns;
    statistics->root_ns += collection->root_ns;
    statistics->mark_ns += collection->mark_ns;
    statistics->sweep_ns += collection->sweep_ns;
    statistics->cpu_ns += collection->cpu_ns;
}

static void count_roots(struct collection_statistics *statistics, const struct root_result *roots)
{
    statistics->root_bytes += roots->bytes;
    statistics->root_indirect_bytes += roots->indirect_bytes;
    statistics->root_mappings = roots->mappings;
}

/* The world runs again. */
static void account(struct collection_driver *driver, const struct times *times)
{
    struct collection_statistics *statistics = &driver->statistics;
    statistics->collections += !driver->current.first_stop;
    statistics->stopped_threads = stopped_count();
    if (!driver->current.is_marked)
        count_roots(statistics, &driver->current.roots);
    note_times(&driver->current, times);
    count_times(statistics, &driver->current);
    utilisation_add(statistics->utilisation, times->begun, times->resumed);
    driver->current.reclaimed = true;
    driver->current.ran_ns = times->begun - driver->ended_ns;
    if (!driver->current.first_stop)
        driver->ended_ns = times->resumed;
    atomic_store(&driver->failures, 0);
}

static void give_up(struct collection_driver *driver, uint64_t *counter, uint64_t begun_ns)
{
    uint64_t ended_ns = monotonic_ns();
    ++*counter;
    driver->statistics.given_up_ns += ended_ns - begun_ns;
    utilisation_add(driver->statistics.utilisation, begun_ns, ended_ns);
    atomic_fetch_add(&driver->failures, 1);
}

/* The work. */

static bool visit_roots(struct collection_driver *driver, uintptr_t stack_pointer)
{
    struct root_visitor visitor = {0};
    driver->collector->begin(&visitor);
    doorbell_enter_roots();
    bool all_read =
        driver->current.is_marked ||
        (resident_open() && roots_visit(stack_pointer, &visitor, &driver->current.roots));
    doorbell_leave();
    return all_read;
}

static void mark(struct collection_driver *driver)
{
    doorbell_enter_mark();
    driver->collector->mark();
    doorbell_leave();
}

/* False: the roots could not be read. */
static bool visit_and_mark(struct collection_driver *driver, uintptr_t stack_pointer,
                           struct times *times)
{
    bool all_read;
    do {
        all_read = visit_roots(driver, stack_pointer);
        times->rooted = monotonic_ns();
        if (all_read)
            mark(driver);
    } while (all_read && driver->collector->again && driver->collector->again());
    times->marked = monotonic_ns();
    return all_read;
}

/* Snapshots. */

struct copy {
    struct collection_driver *driver;
    const struct root_visitor *visitor;
};

/* In the child. */
static bool mark_in_snapshot(void *argument)
{
    const struct copy *copy = argument;
    struct collection *current = &copy->driver->current;
    const struct collector *collector = copy->driver->collector;
    if (!collector->begin_in_snapshot() || !resident_open() ||
        !roots_visit_copied(copy->visitor, &current->roots))
        return false;
    current->snapshot->report->root_bytes = current->roots.bytes + current->roots.indirect_bytes;
    return collector->mark_in_snapshot(current->snapshot);
}

/* False: the roots could not be read, and no child was made. */
static bool visit_and_copy(struct collection_driver *driver, uintptr_t stack_pointer,
                           struct times *times)
{
    struct root_visitor visitor = {0};
    driver->collector->begin(&visitor);
    bool all_read =
        resident_open() && roots_visit_uncopied(stack_pointer, &visitor, &driver->current.roots);
    times->rooted = monotonic_ns();
    struct copy copy = {driver, &visitor};
    if (all_read)
        snapshot_begin(driver->current.snapshot, mark_in_snapshot, &copy);
    excepted_take_back();
    times->marked = monotonic_ns();
    while (all_read && driver->collector->again && driver->collector->again()) {
        all_read = visit_roots(driver, stack_pointer);
        if (all_read)
            mark(driver);
    }
    return all_read;
}

static void sweep(struct collection_driver *driver, struct times *times)
{
    doorbell_enter_sweep();
    driver->statistics.live_bytes = driver->collector->sweep();
    doorbell_leave();
    times->swept = monotonic_ns();
}

/* The world is stopped. */
static void collect_stopped(struct collection_driver *driver, uintptr_t stack_pointer,
                            struct times *times)
{
    times->stopped = monotonic_ns();
    bool all_read = driver->current.snapshot ? visit_and_copy(driver, stack_pointer, times)
                                             : visit_and_mark(driver, stack_pointer, times);
    if (all_read)
        sweep(driver, times);
    else if (driver->collector->abandon)
        driver->collector->abandon();
    resume_world();
    times->resumed = monotonic_ns();
    if (all_read)
        account(driver, times);
    else
        give_up(driver, &driver->statistics.given_up_roots, times->begun);
}

/* [running then execs]. STOP_FAILURES: there may be no collection. */
static enum stop_failure stop_if_allowed(struct collection_driver *driver)
{
    atomic_store(&driver->running, true);
    return collection_is_allowed(driver) ? stop_world() : STOP_FAILURES;
}

static void count_failure(struct collection_driver *driver, enum stop_failure failure,
                          uint64_t begun_ns)
{
    if (failure == STOP_FAILURES)
        driver->statistics.unavailable++;
    else
        give_up(driver, &driver->statistics.given_up[failure], begun_ns);
}

/* On a stack of our own. stack_pointer: of the program's. */
static void stop_and_collect(void *argument, uintptr_t stack_pointer)
{
    struct collection_driver *driver = argument;
    if (driver->collector->prepare)
        driver->collector->prepare();
    struct times times = {.begun = monotonic_ns(), .begun_cpu = process_ns()};
    enum stop_failure failure = stop_if_allowed(driver);
    if (failure == STOP_DONE)
        collect_stopped(driver, stack_pointer, &times);
    atomic_store(&driver->running, false);
    if (failure != STOP_DONE)
        count_failure(driver, failure, times.begun);
    if (driver->collector->finish)
        driver->collector->finish(&driver->current);
}

/* [running then execs] */
static void wait_for_stop(const struct collection_driver *driver)
{
    static const struct timespec nap = {.tv_nsec = 100000};
    while (atomic_load(&driver->running))
        SYSCALL_2(SYS_nanosleep, &nap, NULL);
}

bool collection_before_exec(struct collection_driver *driver)
{
    if (!collection_is_of_this_process(driver))
        return false;
    atomic_fetch_add(&driver->execs, 1);
    wait_for_stop(driver);
    stop_take_late_signals();
    return true;
}

/* In the child of a fork that a handler made during the call there is none to take back. */
void collection_after_exec(struct collection_driver *driver)
{
    if (!collection_is_of_this_process(driver))
        return;
    unsigned execs = atomic_load(&driver->execs);
    while (execs > 0 && !atomic_compare_exchange_weak(&driver->execs, &execs, execs - 1))
        ;
}

bool collection_is_put_off(const struct collection_driver *driver)
{
    if (!driver->available)
        return false;
    return memory_is_lent() || (memory_is_own() && atomic_load(&driver->execs) > 0);
}

bool collection_is_possible(struct collection_driver *driver)
{
    if (collection_is_allowed(driver))
        return true;
    driver->statistics.unavailable++;
    return false;
}

/* `held` is an upper bound of what the heap holds: a heap lies in the window or in mappings, and
 * what the window has taken may be counted in both. */
bool collection_may_make_room(size_t alignment, size_t bytes)
{
    size_t held = window_used_bytes() + mapped_bytes();
    size_t span = bytes + alignment; /* a pages_map of these */
    return (bytes <= held || pages_are_to_be_had(bytes - held)) &&
           (span <= held || addresses_are_to_be_had(span - held));
}

/* Roots or blocks may lie in pages with a protection key for which the thread lacks rights. So it
 * takes all rights meanwhile, which helpers inherit. */
static void run_on_own_stack(const struct collection_driver *driver,
                             void (*function)(void *argument, uintptr_t stack_pointer),
                             void *argument)
{
    uint32_t rights = driver->has_protection_keys ? change_rights(ALL_RIGHTS) : 0;
    call_on_stack(function, argument, driver->stack + STACK_BYTES);
    if (driver->has_protection_keys)
        change_rights(rights);
}

static void run(struct collection_driver *driver)
{
    doorbell_enter_collector();
    doorbell_collection_begin(driver->statistics.collections);
    run_on_own_stack(driver, stop_and_collect, driver);
    doorbell_collection_end(driver->statistics.live_bytes);
    doorbell_leave();
}

struct slice {
    void (*work)(size_t amount);
    size_t amount;
};

static void work_on_slice(void *argument, uintptr_t stack_pointer)
{
    (void)stack_pointer;
    const struct slice *slice = argument;
    slice->work(slice->amount);
}

void collection_run_slice(struct collection_driver *driver, void (*work)(size_t amount),
                          size_t amount)
{
    struct slice slice = {work, amount};
    uint64_t mask = signals_block(ALL_SIGNALS);
    if (memory_is_own()) {
        doorbell_enter_collector();
        doorbell_enter_mark();
        run_on_own_stack(driver, work_on_slice, &slice);
        doorbell_leave();
        doorbell_leave();
    }
    signals_restore(mask);
}

/* Takes the lock of the roots ([no lock while stopped]), with all signals blocked. It waits with
 * them open: the holder may have been interrupted by a handler that calls setuid, for which libc
 * waits until each thread has taken a signal. Returns what was blocked before. */
static uint64_t lock_roots(void)
{
    uint64_t mask = signals_block(ALL_SIGNALS);
    while (!asked_roots_try()) {
        signals_restore(mask);
        asked_roots_lock();
        asked_roots_unlock();
        mask = signals_block(ALL_SIGNALS);
    }
    return mask;
}

/* A signal handler may have forked since it was asked whether there may be a collection. So it is
 * asked again, now that none can. */
static bool run_stop(struct collection_driver *driver, bool first_stop, struct snapshot *snapshot)
{
    uint64_t mask = lock_roots();
    driver->current.first_stop = first_stop;
    driver->current.snapshot = snapshot;
    driver->current.roots = (struct root_result){0};
    driver->current.reclaimed = false;
    if (collection_is_allowed(driver)) {
        run(driver);
    } else {
        driver->statistics.unavailable++;
        if (driver->collector->finish)
            driver->collector->finish(&driver->current);
    }
    asked_roots_unlock();
    signals_restore(mask);
    return driver->current.reclaimed;
}

bool collection_run(struct collection_driver *driver)
{
    return run_stop(driver, false, NULL);
}

bool collection_run_marked(struct collection_driver *driver)
{
    driver->current.is_marked = true;
    bool reclaimed = run_stop(driver, false, NULL);
    driver->current.is_marked = false;
    return reclaimed;
}

bool collection_run_first_stop(struct collection_driver *driver)
{
    return run_stop(driver, true, NULL);
}

bool collection_run_snapshot(struct collection_driver *driver, struct snapshot *snapshot)
{
    return run_stop(driver, true, snapshot);
}

bool collection_is_available(const struct collection_driver *driver)
{
    return atomic_load_explicit(&driver->available, memory_order_relaxed) && !memory_is_copy();
}

bool collection_works(const struct collection_driver *driver)
{
    return collection_is_available(driver) && atomic_load(&driver->failures) < HOPELESS;
}

bool collection_never_again(struct collection_driver *driver)
{
    if (!collection_is_of_this_process(driver))
        return false;
    driver->available = false;
    wait_for_stop(driver);
    wait_for_resumed();
    return true;
}

void collection_before_hiding(const struct collection_driver *driver)
{
    if (collection_is_of_this_process(driver))
        process_keep_files();
}

void collection_forked(struct collection_driver *driver)
{
    own_memory_forked();
    atomic_store(&driver->execs, 0);
    driver->available = driver->available && process_forked();
}
