/* SPDX-License-Identifier: MIT
 *
 * latency.c: see latency.h.
 *
 * Time is the processor's time-stamp counter, fenced so that nothing of the call is outside of
 * it. A histogram has four bars for each power of two, so a figure read from it is at most a
 * quarter too large. Threads count on different stripes as far as there are some.
 */
#include "shim/observers/latency.h"

#include <stdatomic.h>
#include <string.h>

#include "shim/reports/emitter.h"
#include "shim/reports/output.h"
#include "vm/clock.h"
#include "vm/number.h"
#include "vm/lock.h"

enum { BARS = 256, STRIPES = 16, CALIBRATIONS = 1001 };

enum call { MALLOC, CALLOC, ALIGNED, REALLOC, FREE, CALLS };

static const char *const call_names[] = {"malloc", "calloc", "aligned", "realloc", "free"};

struct stripe {
    _Atomic uint64_t bars[CALLS][BARS], longest[CALLS];
} __attribute__((aligned(64)));

static struct {
    struct route inner;
    const struct configuration *configuration;
    char destination[OUTPUT_NAME_BYTES];
    uint64_t own_ticks;               /* what reading the counter twice takes */
    uint64_t start_ticks, start_time; /* time: nanoseconds */
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
    unsigned processor;
    uint64_t ticks = __builtin_ia32_rdtscp(&processor);
    __builtin_ia32_lfence();
    return ticks;
}

static unsigned bar_of(uint64_t ticks)
{
    if (ticks < 4)
        return (unsigned)ticks;
    unsigned power = 63 - (unsigned)__builtin_clzll(ticks);
    return 4 * (power - 1) + (unsigned)(ticks >> (power - 2) & 3);
}

/* The first number of ticks that belongs to a later bar. */
static uint64_t bar_end(unsigned bar)
{
    if (bar < 4)
        return bar + 1;
    unsigned power = bar / 4 + 1;
    return (uint64_t)(bar % 4 + 5) << (power - 2);
}

static void note(enum call call, uint64_t began)
{
    uint64_t ticks = end_ticks() - began;
    ticks = ticks > latency.own_ticks ? ticks - latency.own_ticks : 0;
    struct stripe *stripe = &latency.stripes[(current_thread() >> 12) % STRIPES];
    atomic_fetch_add_explicit(&stripe->bars[call][bar_of(ticks)], 1, memory_order_relaxed);
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

/* The smallest of many: what else the machine does only adds to it. */
static uint64_t calibrate(void)
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
    strncpy(latency.destination, value, sizeof latency.destination - 1);
    latency.own_ticks = calibrate();
    latency.start_time = monotonic_ns();
    latency.start_ticks = __builtin_ia32_rdtsc();
    struct route timed = inner;
    timed.alloc = timed_alloc;
    timed.alloc_zeroed = timed_alloc_zeroed;
    timed.alloc_aligned = timed_alloc_aligned;
    timed.free = timed_free;
    timed.resize = timed_resize;
    return timed;
}

/* Writing. */

struct histogram {
    uint64_t bars[BARS], calls, longest; /* longest: ticks */
};

static void sum_up(enum call call, struct histogram *sum)
{
    memset(sum, 0, sizeof *sum);
    for (unsigned i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &latency.stripes[i];
        uint64_t longest = atomic_load_explicit(&stripe->longest[call], memory_order_relaxed);
        sum->longest = longest > sum->longest ? longest : sum->longest;
        for (unsigned bar = 0; bar < BARS; bar++) {
            uint64_t count = atomic_load_explicit(&stripe->bars[call][bar], memory_order_relaxed);
            sum->bars[bar] += count;
            sum->calls += count;
        }
    }
}

static double nanoseconds_per_tick(void)
{
    uint64_t ticks = __builtin_ia32_rdtsc() - latency.start_ticks;
    uint64_t time = monotonic_ns() - latency.start_time;
    return ticks > 0 ? (double)time / (double)ticks : 0;
}

/* The end of the bar in which the call lies that `share` of all calls are not slower than. */
static uint64_t quantile(const struct histogram *sum, double share)
{
    uint64_t before = 0;
    for (unsigned bar = 0; bar < BARS; bar++) {
        before += sum->bars[bar];
        if ((double)before >= share * (double)sum->calls)
            return bar_end(bar) < sum->longest ? bar_end(bar) : sum->longest;
    }
    return sum->longest;
}

/* For people a bar stands behind the count, a sign for each doubling: the rare long calls are what
 * is looked for. */
static void emit_count(struct emitter *emitter, const char *key, uint64_t count)
{
    if (emitter->json) {
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
    emit_text(emitter, key, text);
}

static void emit_histogram(struct emitter *emitter, const char *name, const struct histogram *sum,
                           double scale)
{
    emit_open(emitter, name);
    emit_number(emitter, "calls", sum->calls);
    static const struct {
        const char *key;
        double share;
    } quantiles[] = {{"p50_ns", 0.5}, {"p90_ns", 0.9}, {"p99_ns", 0.99}, {"p99.9_ns", 0.999}};
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++)
        emit_number(emitter, quantiles[i].key,
                    (uint64_t)(scale * (double)quantile(sum, quantiles[i].share) + 0.5));
    emit_number(emitter, "longest_ns", (uint64_t)(scale * (double)sum->longest + 0.5));
    emit_open(emitter, "calls_below_ns"); /* each bar by its end, in nanoseconds */
    uint64_t count = 0, last = 0;
    for (unsigned bar = 0; bar < BARS; bar++) {
        count += sum->bars[bar];
        uint64_t end = (uint64_t)(scale * (double)bar_end(bar) + 1);
        bool is_last = bar + 1 == BARS || (uint64_t)(scale * (double)bar_end(bar + 1) + 1) != end;
        if (count == 0 || !is_last || end == last)
            continue;
        char key[DECIMAL_BYTES + 1];
        key[write_decimal(key, end)] = '\0';
        emit_count(emitter, key, count);
        last = end;
        count = 0;
    }
    emit_close(emitter);
    emit_close(emitter);
}

static bool write_to(int file, bool json)
{
    struct emitter emitter;
    double scale = nanoseconds_per_tick();
    output_begin(&emitter, file, json, "allotrope.latency/1", latency.configuration);
    emit_number(&emitter, "own_cost_ns_subtracted",
                (uint64_t)(scale * (double)latency.own_ticks + 0.5));
    for (enum call call = 0; call < CALLS; call++) {
        static struct histogram sum;
        sum_up(call, &sum);
        if (sum.calls > 0)
            emit_histogram(&emitter, call_names[call], &sum, scale);
    }
    return output_end(&emitter);
}

static void write_at_exit(void)
{
    output_write(latency.destination, "ALLOTROPE_LATENCY", write_to);
}

const struct observer latency_observer = {
    .variable = "ALLOTROPE_LATENCY", .start = start, .at_exit = write_at_exit};
