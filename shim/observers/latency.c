/* SPDX-License-Identifier: MIT
 *
 * latency.c: see latency.h.
 *
 * The clock is the processor's time-stamp counter (rdtsc; not every x86-64 has rdtscp). The fences
 * keep the call's instructions between its two readings. Each call adds one to a bucket of a
 * histogram (histogram.h).
 *
 * Shared words: the counters of a stripe. The address of a thread's control block selects its
 * stripe, so threads mostly count on different cache lines. Writer: any thread, by a relaxed atomic
 * addition; the longest time by a relaxed load and store, so of two threads that write at once one
 * may be lost. Reader: the report at exit, which adds the stripes up.
 */
#include "shim/observers/latency.h"

#include <stdatomic.h>
#include <string.h>

#include "shim/observers/histogram.h"
#include "shim/observers/stopwatch.h"
#include "shim/reports/emitter.h"
#include "shim/reports/output.h"
#include "vm/number.h"
#include "vm/lock.h"

enum { STRIPES = 16, CALIBRATIONS = 1001 };

enum call { MALLOC, CALLOC, ALIGNED, REALLOC, FREE, CALLS };

static const char *const call_names[] = {"malloc", "calloc", "aligned", "realloc", "free"};

struct stripe {
    _Atomic uint64_t counts[CALLS][HISTOGRAM_BUCKETS], longest[CALLS];
} __attribute__((aligned(64)));

static struct {
    struct route inner;
    const struct configuration *configuration;
    struct output_pattern destination;
    uint64_t own_ticks; /* that reading the counter twice takes */
    struct stopwatch stopwatch;
    struct stripe stripes[STRIPES];
} latency;

static inline uint64_t begin_ticks(void)
{
    uint64_t ticks = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return ticks;
}

static inline uint64_t end_ticks(void)
{
    __builtin_ia32_lfence();
    uint64_t ticks = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return ticks;
}

static void note(enum call call, uint64_t began)
{
    int64_t net = (int64_t)(end_ticks() - began - latency.own_ticks);
    uint64_t ticks = net > 0 ? (uint64_t)net : 0; /* sockets' counters may differ */
    struct stripe *stripe = &latency.stripes[(current_thread() >> 12) % STRIPES];
    atomic_fetch_add_explicit(&stripe->counts[call][bucket_of(ticks)], 1, memory_order_relaxed);
    if (ticks > atomic_load_explicit(&stripe->longest[call], memory_order_relaxed))
        atomic_store_explicit(&stripe->longest[call], ticks, memory_order_relaxed);
}

static void *timed_alloc(size_t size)
{
    uint64_t began = begin_ticks();
    void *block = latency.inner.alloc(size);
    note(MALLOC, began);
    return block;
}

static void *timed_alloc_zeroed(size_t size)
{
    uint64_t began = begin_ticks();
    void *block = latency.inner.alloc_zeroed(size);
    note(CALLOC, began);
    return block;
}

static void *timed_alloc_aligned(size_t alignment, size_t size)
{
    uint64_t began = begin_ticks();
    void *block = latency.inner.alloc_aligned(alignment, size);
    note(ALIGNED, began);
    return block;
}

static void *timed_resize(void *block, size_t size)
{
    uint64_t began = begin_ticks();
    void *resized = latency.inner.resize(block, size);
    note(REALLOC, began);
    return resized;
}

static void timed_free(void *block)
{
    uint64_t began = begin_ticks();
    latency.inner.free(block);
    note(FREE, began);
}

/* What reading the counter twice takes: the smallest of many, since whatever else the machine does
 * only adds to it. */
static uint64_t measure_own_ticks(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < CALIBRATIONS; i++) {
        uint64_t began = begin_ticks();
        uint64_t ticks = end_ticks() - began;
        least = ticks < least ? ticks : least;
    }
    return least;
}

static struct route start(const struct configuration *configuration, struct route inner,
                          const char *value)
{
    latency.inner = inner;
    latency.configuration = configuration;
    latency.destination = observer_destination(value, "ALLOTROPE_LATENCY");
    latency.own_ticks = measure_own_ticks();
    latency.stopwatch = stopwatch_start();
    struct route timed = inner;
    timed.alloc = timed_alloc;
    timed.alloc_zeroed = timed_alloc_zeroed;
    timed.alloc_aligned = timed_alloc_aligned;
    timed.free = timed_free;
    timed.resize = timed_resize;
    return timed;
}

/* The report. */

static void sum_up(enum call call, struct histogram *sum)
{
    memset(sum, 0, sizeof *sum);
    for (unsigned i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &latency.stripes[i];
        uint64_t longest = atomic_load_explicit(&stripe->longest[call], memory_order_relaxed);
        sum->largest = longest > sum->largest ? longest : sum->largest;
        for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
            uint64_t count =
                atomic_load_explicit(&stripe->counts[call][bucket], memory_order_relaxed);
            sum->counts[bucket] += count;
            sum->total += count;
        }
    }
}

/* The table shows a bar behind the count, a sign for each doubling: the reader looks for the calls
 * that are rare and long. */
static void emit_count(struct emitter *emitter, const char *key, uint64_t count)
{
    if (emitter->is_json) {
        emit_number(emitter, key, count);
        return;
    }
    char text[96];
    size_t length = write_decimal(text, count);
    while (length < 12)
        text[length++] = ' ';
    for (uint64_t left = count; left > 0; left /= 2)
        text[length++] = '#';
    text[length] = '\0';
    emit_string(emitter, key, text);
}

static uint64_t rounded(double number)
{
    return (uint64_t)(number + 0.5);
}

/* In nanoseconds, upwards to a whole one. */
static uint64_t bucket_end_ns(unsigned bucket, double ns_per_tick)
{
    return (uint64_t)(ns_per_tick * (double)bucket_end(bucket) + 1);
}

/* The counts by the end of their buckets. Buckets that end in the same nanosecond are one. */
static void emit_buckets(struct emitter *emitter, const struct histogram *sum, double ns_per_tick)
{
    emit_begin_object(emitter, "calls_below_ns");
    uint64_t count = 0;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        count += sum->counts[bucket];
        uint64_t end = bucket_end_ns(bucket, ns_per_tick);
        bool is_last =
            bucket + 1 == HISTOGRAM_BUCKETS || bucket_end_ns(bucket + 1, ns_per_tick) != end;
        if (count == 0 || !is_last)
            continue;
        char key[DECIMAL_BYTES + 1];
        key[write_decimal(key, end)] = '\0';
        emit_count(emitter, key, count);
        count = 0;
    }
    emit_end_object(emitter);
}

static void emit_histogram(struct emitter *emitter, const char *name, const struct histogram *sum,
                           double ns_per_tick)
{
    static const struct {
        const char *key;
        double share;
    } quantiles[] = {{"p50_ns", 0.5}, {"p90_ns", 0.9}, {"p99_ns", 0.99}, {"p99.9_ns", 0.999}};
    emit_begin_object(emitter, name);
    emit_number(emitter, "calls", sum->total);
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
        double ticks = (double)histogram_quantile(sum, quantiles[i].share);
        emit_number(emitter, quantiles[i].key, rounded(ns_per_tick * ticks));
    }
    emit_number(emitter, "longest_ns", rounded(ns_per_tick * (double)sum->largest));
    emit_buckets(emitter, sum, ns_per_tick);
    emit_end_object(emitter);
}

static bool write_to(int file, bool json)
{
    struct emitter emitter;
    double ns_per_tick = stopwatch_ns_per_tick(&latency.stopwatch);
    output_begin(&emitter, file, json, "allotrope.latency/1", latency.configuration);
    emit_number(&emitter, "own_cost_ns_subtracted",
                rounded(ns_per_tick * (double)latency.own_ticks));
    for (enum call call = 0; call < CALLS; call++) {
        static struct histogram sum;
        sum_up(call, &sum);
        if (sum.total > 0)
            emit_histogram(&emitter, call_names[call], &sum, ns_per_tick);
    }
    if (latency.configuration->allocator->collect) /* a long call may be a collection */
        output_more_statistics(&emitter, latency.configuration->allocator);
    return output_end(&emitter);
}

static void write_at_exit(void)
{
    output_write(latency.destination, "ALLOTROPE_LATENCY", write_to);
}

const struct observer latency_observer = {
    .variable = "ALLOTROPE_LATENCY", .start = start, .at_exit = write_at_exit};
