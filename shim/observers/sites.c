/* SPDX-License-Identifier: MIT
 *
 * sites.c: see sites.h.
 *
 * Costs. An allocation that is not sampled: a countdown in thread-local storage. A free of a block
 * that was not: a look into a filter of 32 KiB. A sample: some 2,000 instructions, most of them for
 * the walk up its stack (stack_trace.h).
 *
 * Known stacks. Most samples are taken on a stack that was walked before. A small table holds such
 * stacks: for each, where its return addresses lie, and its site. If all of these addresses lie
 * there again, it is the same stack, and the sample costs a quarter.
 *
 * The rate. Unless one is given, it adapts so that samples take about a hundredth of the program's
 * time. It is never so fine that the heap at its peak has more than some 2,000 samples.
 *
 * Temporaries: allocations whose free is the next thing that their thread asks for. Each thread
 * remembers its last sample, and its countdown at that time. An allocation of a byte or more moves
 * the countdown, and any free forgets the sample. So a free of the sample with the same countdown
 * is a temporary's.
 *
 * Where the allocator reports leaks each allocation is sampled, and what the leaks add up to stands
 * in the report (leaks.h). What malloc gives is zeroed then, unless another observer stands
 * between: stale pointers in it would hide leaks.
 *
 * What a signal handler allocates while it interrupts a sample of its thread is not sampled. A
 * sample that a thread would take while the process forks is lost, and counted as lost. A block
 * that is freed meanwhile leaves the table when the fork is over (vm/freeze.h).
 */
#include "shim/observers/sites.h"

#include <string.h>
#include <sys/auxv.h>

#include "shim/configuration/environment.h"
#include "shim/observers/leaks.h"
#include "shim/observers/sampling.h"
#include "shim/observers/site_table.h"
#include "shim/observers/stack_trace.h"
#include "shim/observers/stopwatch.h"
#include "shim/reports/emitter.h"
#include "shim/reports/output.h"
#include "shim/reports/publish.h"
#include "shim/route/start.h"
#include "vm/clock.h"
#include "vm/deferred.h"
#include "vm/fork_chain.h"
#include "vm/freeze.h"
#include "vm/granule_map.h"
#include "vm/kernel/maps.h"
#include "vm/lock.h"
#include "vm/message.h"
#include "vm/number.h"
#include "vm/pages.h"
#include "vm/random.h"

enum { DEFAULT_FRAMES = 32 };

/* The unit of work is a sample on a known stack; a walk counts WALK_WORK units. A unit costs some
 * 150 ns, and there shall be one in WORK_NS of the process's time. After every BATCH of units the
 * rate changes. A batch that took longer than BATCH_NS leaves credit, up to MOST_CREDIT_NS. With
 * credit later batches may take as little as a quarter of BATCH_NS. */
enum {
    FINEST_RATE = 512,
    PEAK_SAMPLES = 2048,
    BATCH = 128,
    WORK_NS = 16000,
    BATCH_NS = BATCH * WORK_NS,
    MOST_CREDIT_NS = 200000000,
    WALK_WORK = 4
};

/* A stack that was walked, found by its innermost frame and return address. */
enum { STACK_BITS = 8 };
struct known_stack {
    const uintptr_t *frame; /* as of observer_frame() */
    uintptr_t thread;       /* another's stack at the same place may be shorter than the offsets */
    uintptr_t return_address;
    uint32_t site; /* as of site_table_site(); 0: free */
    uint32_t offsets[MOST_FRAMES];
};

static struct {
    struct route inner;
    const struct configuration *configuration;
    struct output_pattern destination;
    bool is_rate_given;
    bool reports_leaks, is_asked_for; /* by the environment */
    uintptr_t kernel_code;            /* the vDSO */
    uint64_t frames;
    _Atomic uint32_t rate;
    _Atomic uint64_t sequences; /* each word of it starts a sequence, for one sample */
    struct stopwatch stopwatch;
    struct lock lock; /* of what follows */
    uint64_t samples;
    uint64_t peak_ticks;  /* the time-stamp counter at the peak */
    uint32_t work;        /* of this batch */
    uint64_t batch_began; /* nanoseconds of the process's time */
    double credit;        /* nanoseconds that batches took above BATCH_NS each */
    double affordable;    /* rate at which a batch takes the time that it shall */
    struct site_table table;
    struct known_stack stacks[1 << STACK_BITS];
} sites;

/* Where the allocator's own state lies (own_state in struct allocator). features/leaks/heap.py
 * knows the structure as it is. */
static struct {
    const void *start;
    size_t bytes;
} own_state;

static __thread struct {
    struct sampling sampling;
    bool is_sampling;
    uint64_t last; /* last_word() of the last block that was sampled, and of the countdown then */
} thread __attribute__((tls_model("initial-exec"), aligned(8)));

/* One word, since the threads' memory is scarce. hidden: as in struct sampled_block. */
static uint64_t last_word(uintptr_t hidden)
{
    return hidden ^ thread.sampling.left * RANDOM_GAMMA;
}

static double between(double least, double number, double most)
{
    return number < least ? least : number > most ? most : number;
}

/* At the end of a batch: the rate at which it would have taken the time that it shall, twofold or
 * half at most. Credit and debt are to be gone after eight batches more. In a sandbox the rate
 * stays, since the question of the process's time may end it. */
static double affordable_rate(void)
{
    if (pages_are_in_sandbox())
        return sites.affordable;
    uint64_t now = process_ns();
    double took = (double)(now - sites.batch_began);
    sites.batch_began = now;
    sites.credit = between(-MOST_CREDIT_NS, sites.credit + took - BATCH_NS, MOST_CREDIT_NS);
    double wanted = between(BATCH_NS / 4.0, BATCH_NS - sites.credit / 8, BATCH_NS * 4.0);
    return between(FINEST_RATE, sites.rate / between(0.5, took / wanted, 2), COARSEST_RATE);
}

/* Under the lock, after a sample. */
static void adapt_rate(uint32_t work)
{
    sites.work += work;
    if (sites.work >= BATCH) {
        sites.work = 0;
        sites.affordable = affordable_rate();
    }
    sites.rate =
        (uint32_t)between(sites.affordable, sites.table.peak_bytes / PEAK_SAMPLES, COARSEST_RATE);
}

/* Under the lock. */
static void enter_sample(uint32_t site, const void *block, size_t size, double weight,
                         uint32_t work)
{
    uint64_t now = __builtin_ia32_rdtsc();
    sites.samples++;
    if (site_table_add(&sites.table, site, block, size, weight, now))
        sites.peak_ticks = now;
    if (!sites.is_rate_given)
        adapt_rate(work);
}

static struct known_stack *stack_entry(const uintptr_t *frame)
{
    uint64_t hash = (frame[1] ^ (uintptr_t)frame << 16) * UINT64_C(0x9E3779B97F4A7C15);
    return &sites.stacks[hash >> (64 - STACK_BITS)];
}

static bool is_same_stack(const struct known_stack *known, const uintptr_t *frame)
{
    if (!known->site || known->frame != frame || known->thread != current_thread() ||
        known->return_address != frame[1])
        return false;
    const struct site *site = &sites.table.sites[known->site - 1];
    for (uint32_t i = 1; i < site->depth; i++)
        if (*(const void *const *)((const char *)(frame + 2) + known->offsets[i]) !=
            site->frames[i])
            return false;
    return true;
}

static void count_lost(const uintptr_t *unused)
{
    (void)unused;
    sites.table.lost++;
}

/* Whether this is a signal handler that has interrupted its thread while that has the lock. What it
 * allocates is a lost sample. What it frees is not noted, until its address is handed out again. */
static bool has_interrupted(void)
{
    return __builtin_expect(lock_is_own(&sites.lock), 0);
}

/* False: the process forks, or the sample is a handler's, and it is lost. */
static bool lock_for_sample(void)
{
    if (has_interrupted()) {
        sites.table.lost++;
        return false;
    }
    if (lock_enter(&sites.lock))
        return true;
    defer_one(count_lost, NULL);
    frozen_end();
    return false;
}

static __attribute__((noinline)) void walk_and_sample(const void *block, size_t size, double weight,
                                                      const uintptr_t *frame)
{
    const void *frames[MOST_FRAMES];
    uint32_t offsets[MOST_FRAMES];
    uint32_t depth = stack_trace(frame, frames, offsets, (uint32_t)sites.frames);
    if (!lock_for_sample())
        return;
    uint32_t site = site_table_site(&sites.table, frames, depth);
    if (site && *offsets) {
        struct known_stack *known = stack_entry(frame);
        *known = (struct known_stack){
            .frame = frame, .thread = current_thread(), .return_address = frame[1], .site = site};
        memcpy(known->offsets, offsets, depth * sizeof *offsets);
    }
    enter_sample(site, block, size, weight, WALK_WORK);
    lock_release(&sites.lock);
}

static void take_sample(const void *block, size_t size, double weight, const uintptr_t *frame)
{
    if (!lock_for_sample())
        return;
    struct known_stack *known = stack_entry(frame);
    bool is_known = is_same_stack(known, frame);
    if (is_known)
        enter_sample(known->site, block, size, weight, 1);
    lock_release(&sites.lock);
    if (!is_known)
        walk_and_sample(block, size, weight, frame);
}

/* Leaks. */

/* At the end of a call, in no operation. While the process forks nothing comes of it. */
static __attribute__((noinline)) void answer_leaks(void)
{
    if (has_interrupted())
        return;
    if (!lock_enter(&sites.lock)) {
        frozen_end();
        return;
    }
    if (leaks_are_asked_for())
        leaks_answer(&sites.table, sites.configuration->allocator, true);
    lock_release(&sites.lock);
}

static inline void answer_if_asked(void)
{
    if (leaks_are_asked_for())
        answer_leaks();
}

/* Like answer_leaks(), but waits for no lock: the holder of a lock may be a collection that waits
 * for this thread, which cannot be stopped while it is in the handler. If nothing comes of it, the
 * other process sends the signal again. The thread may also be in a handler of the program that has
 * interrupted malloc. */
static void answer_at_once(void)
{
    if (!leaks_are_asked_for() || fork_chain_is_interrupted() || !lock_try(&sites.lock))
        return;
    leaks_answer(&sites.table, sites.configuration->allocator, false);
    lock_release(&sites.lock);
}

/* In a signal handler. A thread that is in a system call of ours, or of the kernel's code for us (a
 * clock), may hold a lock. */
static void asked_by_signal(uintptr_t rip)
{
    enum { KERNEL_CODE_BYTES = 4 * PAGE_BYTES };
    bool is_ours = rip - (uintptr_t)own_text.start < (size_t)(own_text.end - own_text.start);
    bool is_kernels = rip - sites.kernel_code < KERNEL_CODE_BYTES;
    if (own_text.start && !is_ours && !is_kernels)
        answer_at_once();
}

/* In the place of alloc: what refuses sets errno (allocator.h). */
static void *alloc_zeroed_for_leaks(size_t size)
{
    const struct allocator *allocator = sites.configuration->allocator;
    void *block = size <= PTRDIFF_MAX ? allocator->alloc_zeroed(size) : NULL;
    return block ? block : allocator->alloc(size);
}

static bool is_needed(const struct allocator *allocator)
{
    return allocator->reports_leaks && allocator->reports_leaks();
}

/* The countdown ended with this allocation: it is sampled, or the thread's first period begins. */
static __attribute__((noinline)) void countdown_ended(const void *block, size_t size,
                                                      const uintptr_t *frame)
{
    if (!block || thread.is_sampling)
        return;
    thread.is_sampling = true;
    uint64_t random = random_draw_shared(&sites.sequences);
    double weight = sampling_weight(&thread.sampling, size, sites.rate, &random);
    if (weight > 0) {
        take_sample(block, size, weight, frame);
        thread.last = last_word(~(uintptr_t)block);
    }
    thread.is_sampling = false;
    answer_if_asked();
}

/* Counts down; false: the allocation may be sampled. */
static inline bool passes(size_t size)
{
    return sampling_passes(&thread.sampling, size);
}

static void *observed_alloc(size_t size)
{
    if (passes(size))
        return sites.inner.alloc(size);
    void *block = sites.inner.alloc(size);
    countdown_ended(block, size, observer_frame());
    return block;
}

static void *observed_alloc_zeroed(size_t size)
{
    if (passes(size))
        return sites.inner.alloc_zeroed(size);
    void *block = sites.inner.alloc_zeroed(size);
    countdown_ended(block, size, observer_frame());
    return block;
}

static void *observed_alloc_aligned(size_t alignment, size_t size)
{
    if (passes(size))
        return sites.inner.alloc_aligned(alignment, size);
    void *block = sites.inner.alloc_aligned(alignment, size);
    countdown_ended(block, size, observer_frame());
    return block;
}

static void forget_deferred(const uintptr_t *words)
{
    site_table_remove(&sites.table, (const void *)words[0]);
}

static __attribute__((noinline)) struct sampled_block forget(const void *block)
{
    if (has_interrupted())
        return (struct sampled_block){0};
    if (!lock_enter(&sites.lock)) {
        defer_one(forget_deferred, block);
        frozen_end();
        return (struct sampled_block){0};
    }
    struct sampled_block removed = site_table_remove(&sites.table, block);
    lock_release(&sites.lock);
    return removed;
}

static bool is_temporary(const struct sampled_block *freed)
{
    return last_word(freed->hidden) == thread.last;
}

static void count_end(const uintptr_t *words)
{
    struct sampled_block removed = site_table_remove(&sites.table, (const void *)words[0]);
    if (removed.hidden)
        site_table_count_end(&sites.table, &removed, words[1], words[2]);
}

static __attribute__((noinline)) void count_free(const void *block)
{
    struct sampled_block freed = {.hidden = ~(uintptr_t)block};
    const uintptr_t words[DEFERRED_WORDS] = {(uintptr_t)block, __builtin_ia32_rdtsc(),
                                             is_temporary(&freed)};
    if (has_interrupted())
        return;
    if (!lock_enter(&sites.lock)) {
        defer(count_end, words);
        frozen_end();
        return;
    }
    count_end(words);
    lock_release(&sites.lock);
}

static void observed_free(void *block)
{
    if (__builtin_expect(site_table_may_hold(&sites.table, block), 0))
        count_free(block);
    thread.last = 0;
    sites.inner.free(block);
    answer_if_asked();
}

/* The old block must be out of the table before another thread may be handed its address. */
static void *observed_resize(void *block, size_t size)
{
    struct sampled_block removed = {0};
    if (site_table_may_hold(&sites.table, block))
        removed = forget(block);
    bool was_last = is_temporary(&removed);
    void *resized = sites.inner.resize(block, size);
    if (removed.hidden && lock_for_sample()) {
        if (resized)
            site_table_count_end(&sites.table, &removed, __builtin_ia32_rdtsc(), was_last);
        else
            site_table_restore(&sites.table, &removed);
        lock_release(&sites.lock);
    }
    if (resized && !passes(size))
        countdown_ended(resized, size, observer_frame());
    return resized;
}

static uint64_t setting(const char *variable, uint64_t initial, uint64_t most)
{
    const char *text = environment_get(variable);
    uint64_t number = initial;
    if (!text || (parse_size(text, strlen(text), &number) && number >= 1 && number <= most))
        return number;
    struct message message;
    message_begin(&message);
    message_text(&message, "bad value ");
    message_quoted(&message, text, strnlen(text, 64));
    message_text(&message, " for ");
    message_text(&message, variable);
    message_text(&message, "; valid are: 1 to ");
    message_decimal(&message, most);
    message_text(&message, ", perhaps with K, M or G");
    stop_before_main(&message);
}

static void start_leaks(void)
{
    sites.reports_leaks = sites.is_rate_given = true;
    sites.rate = 1;
    sites.kernel_code = getauxval(AT_SYSINFO_EHDR);
    if (sites.inner.alloc == sites.configuration->allocator->alloc)
        sites.inner.alloc = alloc_zeroed_for_leaks;
    publish_counter("leaks/1", &leak_report);
    sites.configuration->allocator->own_state(&own_state.start, &own_state.bytes);
    publish_counter("own_state/1", &own_state);
    publish_counter("owners/1", &owners);
    publish_counter("beside_heaps/1", &beside_heaps);
    allocator_asked = asked_by_signal;
}

static struct route start(const struct configuration *configuration, struct route inner,
                          const char *value)
{
    sites.lock = (struct lock)LOCK_INITIALIZER(RANK_SITES);
    fork_chain_add(&sites.lock);
    sites.inner = inner;
    sites.configuration = configuration;
    sites.stopwatch = stopwatch_start();
    sites.peak_ticks = sites.stopwatch.ticks;
    sites.sequences = random_seed();
    sites.batch_began = process_ns();
    sites.affordable = FINEST_RATE;
    sites.is_rate_given = environment_get("ALLOTROPE_SITES_RATE") != NULL;
    sites.rate = (uint32_t)setting("ALLOTROPE_SITES_RATE", FINEST_RATE, COARSEST_RATE);
    sites.frames = setting("ALLOTROPE_SITES_FRAMES", DEFAULT_FRAMES, MOST_FRAMES);
    sites.is_asked_for = value != NULL;
    if (value)
        sites.destination = observer_destination(value, "ALLOTROPE_SITES");
    publish_counter("site_table/1", &sites.table);
    if (is_needed(configuration->allocator))
        start_leaks();
    struct route observed = inner;
    observed.alloc = observed_alloc;
    observed.alloc_zeroed = observed_alloc_zeroed;
    observed.alloc_aligned = observed_alloc_aligned;
    observed.free = observed_free;
    observed.resize = observed_resize;
    return observed;
}

/* The report. */

static uint64_t rounded(double estimate)
{
    return estimate > 0 ? (uint64_t)(estimate + 0.5) : 0;
}

static void write_tally(struct json *json, const char *key, struct tally tally)
{
    json_begin_object(json, key);
    json_number(json, "blocks", rounded(tally.blocks));
    json_number(json, "bytes", rounded(tally.bytes));
    json_end_object(json);
}

static void write_leaks(struct json *json, struct leak_tally leaks)
{
    write_tally(json, "direct",
                (struct tally){(double)leaks.direct_blocks, (double)leaks.direct_bytes});
    write_tally(json, "indirect",
                (struct tally){(double)leaks.indirect_blocks, (double)leaks.indirect_bytes});
}

static void write_site(struct json *json, const struct site *site)
{
    json_begin_object(json, NULL);
    if (sites.reports_leaks)
        write_leaks(json, leaks_of_site((size_t)(site - sites.table.sites)));
    write_tally(json, "peak", site_at_peak(&sites.table, site));
    write_tally(json, "exit", site->live);
    write_tally(json, "total", site->total);
    write_tally(json, "temporary", site->temporary);
    json_addresses(json, "frames", (const void *const *)site->frames, site->depth);
    json_end_object(json);
}

/* How long what was freed had lived: a list of what lived less than so many nanoseconds, and not
 * less than those before. */
static void write_lifetimes(struct json *json, double ns_per_tick)
{
    json_begin_array(json, "lifetimes");
    for (size_t i = 0; i < LIFETIME_BUCKETS - 1; i++) {
        const struct tally *tally = &sites.table.lifetimes[i];
        if (tally->blocks == 0)
            continue;
        json_begin_object(json, NULL);
        json_number(json, "below_ns", rounded((double)(UINT64_C(2) << i) * ns_per_tick));
        json_number(json, "blocks", rounded(tally->blocks));
        json_number(json, "bytes", rounded(tally->bytes));
        json_end_object(json);
    }
    json_end_array(json);
}

static bool write_if_code(void *json, const char *line, const struct mapping *mapping)
{
    if (mapping->readable && mapping->executable && !mapping->writable)
        json_string(json, NULL, line);
    return true;
}

/* The mappings that hold code. */
static void write_maps(struct json *json)
{
    static char buffer[2 * MAPS_LINE_BYTES];
    json_begin_array(json, "maps");
    maps_each_line(buffer, sizeof buffer, write_if_code, json);
    json_end_array(json);
}

/* Always JSON: stack traces are for programs. */
static bool write_to(int file, bool json)
{
    (void)json;
    struct emitter emitter;
    double ns_per_tick = stopwatch_ns_per_tick(&sites.stopwatch);
    uint64_t ticks_to_peak = sites.peak_ticks - sites.stopwatch.ticks;
    output_begin(&emitter, file, true, "allotrope.sites/1", sites.configuration);
    emit_number(&emitter, "rate_bytes", sites.rate); /* where it ended, if it was not given */
    emit_number(&emitter, "frames", stack_trace_is_deep() ? sites.frames : 1);
    emit_number(&emitter, "samples", sites.samples);
    emit_number(&emitter, "lost_samples", sites.table.lost);
    emit_number(&emitter, "peak_bytes", rounded(sites.table.peak_bytes));
    emit_seconds(&emitter, "peak_seconds", rounded((double)ticks_to_peak * ns_per_tick));
    emit_number(&emitter, "exit_bytes", rounded(sites.table.live_bytes));
    if (sites.reports_leaks) {
        json_begin_object(&emitter.json, "leaks");
        json_number(&emitter.json, "found", leak_report.was_found);
        json_begin_object(&emitter.json, "unknown");
        write_leaks(&emitter.json, leak_report.unknown);
        json_end_object(&emitter.json);
        json_end_object(&emitter.json);
    }
    write_lifetimes(&emitter.json, ns_per_tick);
    write_maps(&emitter.json);
    json_begin_array(&emitter.json, "sites");
    for (size_t i = 0; i < sites.table.site_count; i++)
        write_site(&emitter.json, &sites.table.sites[i]);
    json_end_array(&emitter.json);
    return output_end(&emitter);
}

/* A handler that ends the process may have interrupted this thread while it has the lock. Then the
 * sites are told as they are ([whole sites]); leaks are not known, since blocks may be missing. */
static void write_at_exit(void)
{
    bool is_interrupted = has_interrupted();
    if (!is_interrupted)
        lock_acquire(&sites.lock);
    if (sites.reports_leaks &&
        (is_interrupted || !leaks_find(&sites.table, sites.configuration->allocator)))
        leak_report.was_found = 0;
    if (sites.is_asked_for)
        output_write(sites.destination, "ALLOTROPE_SITES", write_to);
    else
        leaks_tell(&sites.table);
    if (!is_interrupted)
        lock_release(&sites.lock);
}

const struct observer sites_observer = {.variable = "ALLOTROPE_SITES",
                                        .is_needed = is_needed,
                                        .start = start,
                                        .before_main = stack_trace_prepare,
                                        .at_exit = write_at_exit};
