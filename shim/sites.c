/* SPDX-License-Identifier: MIT
 *
 * sites.c: see sites.h.
 *
 * An allocation that is not sampled costs a countdown in thread-local storage, a free of a block
 * that was not a look into a filter of 16 KiB. A sample costs the walk up its stack, (callers.h).
 *
 * While a thread takes a sample its countdown is out of reach, so that what a signal handler
 * allocates meanwhile is not sampled.
 */
#include "shim/sites.h"

#include <string.h>

#include "shim/callers.h"
#include "shim/emitter.h"
#include "shim/environment.h"
#include "shim/output.h"
#include "shim/sampling.h"
#include "shim/site_table.h"
#include "shim/start.h"
#include "vm/clock.h"
#include "vm/lock.h"
#include "vm/message.h"
#include "vm/syscall.h"

enum { DEFAULT_FRAMES = 32 };

/* Unless a rate is given it is fine at first, so that small programs are seen well, and doubles
 * from time to time, so that what a program allocates later costs little. The weight of a sample
 * is that of the rate at which its gap was drawn, so estimates stay unbiased. */
enum { FINEST_RATE = 16 << 10, COARSEST_RATE = 512 << 10, SAMPLES_TO_DOUBLE = 256 };

static struct {
    struct route inner;
    const struct configuration *configuration;
    char destination[OUTPUT_NAME_BYTES];
    bool is_rate_given;
    uint64_t frames;
    _Atomic uint64_t rate;
    uint64_t started, peak_at; /* nanoseconds, of the monotonic clock and since then */
    struct lock lock;          /* of what follows */
    uint64_t samples;
    struct site_table table;
} sites;

static __thread struct {
    uint64_t bytes_left; /* to the next sample */
    uint64_t rate;       /* at which they were drawn */
    uint64_t random;     /* 0: the thread has not begun */
} thread __attribute__((tls_model("initial-exec")));

static void take_sample(const void *block, size_t size, const void *caller)
{
    const void *frames[CALLERS_MOST];
    uint32_t depth = callers_of(caller, frames, (uint32_t)sites.frames);
    double weight = sample_weight(size, thread.rate);
    lock_acquire(&sites.lock);
    if (++sites.samples % SAMPLES_TO_DOUBLE == 0 && !sites.is_rate_given &&
        sites.rate < COARSEST_RATE)
        sites.rate *= 2;
    if (site_table_add(&sites.table, block, size, weight, frames, depth))
        sites.peak_at = monotonic_ns() - sites.started;
    lock_release(&sites.lock);
}

static void draw_gap(void)
{
    thread.rate = atomic_load_explicit(&sites.rate, memory_order_relaxed);
    thread.bytes_left = bytes_to_next_sample(thread.rate, &thread.random);
}

/* Whether the allocation that the countdown ends with is sampled: not when it merely begins. */
static bool is_due(size_t size)
{
    if (__builtin_expect(thread.random == 0, 0)) {
        thread.random = (current_thread() ^ monotonic_ns() * UINT64_C(0x9E3779B97F4A7C15)) | 1;
        draw_gap();
        if (size < thread.bytes_left) {
            thread.bytes_left -= size;
            return false;
        }
    }
    return true;
}

static __attribute__((noinline)) void countdown_ended(const void *block, size_t size,
                                                      const void *caller)
{
    if (!block || !is_due(size))
        return;
    thread.bytes_left = UINT64_MAX;
    take_sample(block, size, caller);
    draw_gap();
}

/* Counts down; false: the allocation may be sampled. */
static inline bool passes(size_t size)
{
    if (__builtin_expect(size >= thread.bytes_left, 0))
        return false;
    thread.bytes_left -= size;
    return true;
}

static void *observed_alloc(size_t size)
{
    if (passes(size))
        return sites.inner.alloc(size);
    void *block = sites.inner.alloc(size);
    countdown_ended(block, size, observer_caller());
    return block;
}

static void *observed_alloc_zeroed(size_t size)
{
    if (passes(size))
        return sites.inner.alloc_zeroed(size);
    void *block = sites.inner.alloc_zeroed(size);
    countdown_ended(block, size, observer_caller());
    return block;
}

static void *observed_alloc_aligned(size_t alignment, size_t size)
{
    if (passes(size))
        return sites.inner.alloc_aligned(alignment, size);
    void *block = sites.inner.alloc_aligned(alignment, size);
    countdown_ended(block, size, observer_caller());
    return block;
}

static __attribute__((noinline)) struct sampled_block forget(const void *block)
{
    lock_acquire(&sites.lock);
    struct sampled_block removed = site_table_remove(&sites.table, block);
    lock_release(&sites.lock);
    return removed;
}

static void observed_free(void *block)
{
    if (__builtin_expect(site_table_may_hold(&sites.table, block), 0))
        forget(block);
    sites.inner.free(block);
}

/* The old block must be out of the table before another thread may be given its place. */
static void *observed_resize(void *block, size_t size)
{
    struct sampled_block removed = {0};
    if (site_table_may_hold(&sites.table, block))
        removed = forget(block);
    void *resized = sites.inner.resize(block, size);
    if (!resized) {
        lock_acquire(&sites.lock);
        site_table_restore(&sites.table, &removed);
        lock_release(&sites.lock);
    } else if (!passes(size)) {
        countdown_ended(resized, size, observer_caller());
    }
    return resized;
}

static uint64_t setting(const char *variable, uint64_t initial, uint64_t most)
{
    const char *text = environment_get(variable);
    uint64_t number = initial;
    if (!text || (parse_size(text, &number) && number >= 1 && number <= most))
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

static struct route start(const struct configuration *configuration, struct route inner,
                          const char *value)
{
    sites.lock = (struct lock)LOCK_INITIALIZER(RANK_ACCOUNT);
    sites.inner = inner;
    sites.configuration = configuration;
    sites.started = monotonic_ns();
    sites.is_rate_given = environment_get("ALLOTROPE_SITES_RATE") != NULL;
    sites.rate = setting("ALLOTROPE_SITES_RATE", FINEST_RATE, UINT64_C(1) << 40);
    sites.frames = setting("ALLOTROPE_SITES_FRAMES", DEFAULT_FRAMES, CALLERS_MOST);
    strncpy(sites.destination, value, sizeof sites.destination - 1);
    struct route observed = inner;
    observed.alloc = observed_alloc;
    observed.alloc_zeroed = observed_alloc_zeroed;
    observed.alloc_aligned = observed_alloc_aligned;
    observed.free = observed_free;
    observed.resize = observed_resize;
    return observed;
}

/* Writing. */

static uint64_t rounded(double estimate)
{
    return estimate > 0 ? (uint64_t)(estimate + 0.5) : 0;
}

static void emit_tally(struct emitter *emitter, const char *key, struct tally tally)
{
    emit_open(emitter, key);
    emit_number(emitter, "blocks", rounded(tally.blocks));
    emit_number(emitter, "bytes", rounded(tally.bytes));
    emit_close(emitter);
}

static void emit_site(struct emitter *emitter, const struct site *site)
{
    emit_open(emitter, NULL);
    emit_tally(emitter, "peak", site_at_peak(&sites.table, site));
    emit_tally(emitter, "exit", site->live);
    emit_tally(emitter, "total", site->total);
    emit_open_list(emitter, "frames");
    for (uint32_t i = 0; i < site->depth; i++)
        emit_number(emitter, NULL, (uintptr_t)site->frames[i]);
    emit_close_list(emitter);
    emit_close(emitter);
}

/* The lines that tell where code lies. */
static void emit_maps(struct emitter *emitter)
{
    static char buffer[8192];
    size_t length = 0, got;
    long maps = maps_open();
    emit_open_list(emitter, "maps");
    while ((got = maps_read(maps, buffer + length, sizeof buffer - length)) > 0) {
        length += got;
        char *line = buffer, *end;
        while ((end = memchr(line, '\n', length - (size_t)(line - buffer)))) {
            *end = '\0';
            if (strstr(line, "r-xp"))
                emit_text(emitter, NULL, line);
            line = end + 1;
        }
        length -= (size_t)(line - buffer);
        memmove(buffer, line, length);
    }
    emit_close_list(emitter);
    maps_close(maps);
}

/* Always JSON: a list of stacks is for programs. */
static bool write_to(int file, bool json)
{
    (void)json;
    struct emitter emitter;
    output_begin(&emitter, file, true, "allotrope.sites/1", sites.configuration);
    emit_number(&emitter, "rate_bytes", sites.rate); /* where it ended, if it was not given */
    emit_number(&emitter, "frames", callers_are_known() ? sites.frames : 1);
    emit_number(&emitter, "samples", sites.samples);
    emit_number(&emitter, "lost_samples", sites.table.lost);
    emit_number(&emitter, "peak_bytes", rounded(sites.table.peak_bytes));
    emit_seconds(&emitter, "peak_seconds", sites.peak_at);
    emit_number(&emitter, "exit_bytes", rounded(sites.table.live_bytes));
    emit_maps(&emitter);
    emit_open_list(&emitter, "sites");
    for (size_t i = 0; i < sites.table.site_count; i++)
        emit_site(&emitter, &sites.table.sites[i]);
    emit_close_list(&emitter);
    return output_end(&emitter);
}

static void write_at_exit(void)
{
    lock_acquire(&sites.lock);
    output_write(sites.destination, "ALLOTROPE_SITES", write_to);
    lock_release(&sites.lock);
}

static void fork_prepare(void)
{
    lock_acquire(&sites.lock);
}

static void fork_parent(void)
{
    lock_release(&sites.lock);
}

static void fork_child(void)
{
    lock_reset(&sites.lock);
}

const struct observer sites_observer = {.variable = "ALLOTROPE_SITES",
                                        .start = start,
                                        .before_main = callers_prepare,
                                        .fork_prepare = fork_prepare,
                                        .fork_parent = fork_parent,
                                        .fork_child = fork_child,
                                        .at_exit = write_at_exit};
