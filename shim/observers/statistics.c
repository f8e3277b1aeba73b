/* SPDX-License-Identifier: MIT
 *
 * statistics.c: see statistics.h.
 *
 * Slack. An allocator knows a block's usable size, not the requested one. The difference of the
 * two, the block's slack, is kept in tables beside the heap: a word of four bytes for every 16
 * bytes of heap. A table serves 256 KiB of heap; it is made when the first block in them is handed
 * out; in pass-through, 128 KiB. A slack of 4 GiB or more stands in the two words behind the
 * block's first, which are its own.
 *
 * Pass-through. The next allocator's malloc_usable_size is not asked. tcmalloc's first call of it
 * calls operator new, which is ours and would ask again, without end; and before tcmalloc's own
 * constructors have run it answers 0. The tables keep the requested size in place of the slack.
 * They have a word for every 8 bytes: others than glibc align small blocks to no more.
 *
 * Peak. A snapshot is taken whenever the requested bytes of live blocks exceed those of the last
 * snapshot by 1/128 and 4 KiB (by 1/32 while that is less). So the last one lies within 1% and 4
 * KiB of the peak, never more than 3% below it, and a heap that grows to n bytes takes log(n) of
 * them.
 *
 * Sandboxes. A filter of system calls may end the process for a question about its pages or the
 * time. From the moment on when there may be one, neither is known: they are left out, and the
 * timeline ends.
 *
 * Timeline. Its points are taken inside the program's calls too, so the program sees no thread and
 * no timer of ours.
 *
 * Shared words: all of `account` below its lock. Writer: whoever holds the lock. `allotrope stats`
 * reads some of them from another process, without it (publish.h).
 */
#include "shim/observers/statistics.h"

#include <stdatomic.h>
#include <string.h>

#include "shim/reports/emitter.h"
#include "shim/reports/publish.h"
#include "shim/reports/output.h"
#include "shim/route/outside.h"
#include "shim/route/start.h"
#include "shim/observers/timeline.h"
#include "vm/clock.h"
#include "vm/kernel/process.h"
#include "vm/kernel/resident.h"
#include "vm/deferred.h"
#include "vm/fork_chain.h"
#include "vm/freeze.h"
#include "vm/lock.h"
#include "vm/message.h"
#include "vm/granule_map.h"
#include "vm/number.h"
#include "vm/pages.h"
#include "vm/withheld.h"

enum { SNAPSHOT_STEP_SHARE = 128, SNAPSHOT_LEAST_STEP = 4096, SNAPSHOT_SMALL_SHARE = 32 };

/* Calls between two looks at the clock, which tell whether a point of the timeline is due. */
enum { CALLS_TO_CLOCK = 32 };

struct sums {
    uint64_t blocks, requested, usable, header, alignment; /* all but the first in bytes */
};

struct snapshot {
    uint64_t nanoseconds; /* since the account began */
    struct sums live;
    uint64_t mapped, resident, cached;
};

static struct {
    bool on;
    struct route inner;
    const struct configuration *configuration;
    struct output_pattern destination;
    struct lock lock; /* of what follows */
    uint64_t started;
    uint64_t malloc_calls, calloc_calls, realloc_calls, aligned_calls, free_calls;
    uint64_t total_blocks, total_requested, most_requested;
    struct sums live;
    struct snapshot peak;
    struct timeline timeline;
    uint64_t next_clock; /* at how many calls */
    uint64_t sizes[65];  /* [i]: allocations above 2^(i-1) up to 2^i bytes; the first: up to 1 */
} account;

static _Atomic size_t slack_table_bytes;
extern struct granule_map slack_tables;
struct granule_map slack_tables __attribute__((common)); /* behind all other data, as `owners` is */

/* The table that serves a block, entered for the first granule that it serves. Several threads may
 * make it at once, and one makes it for all. The others' tables stay unused, and take no memory. */
static uint32_t *slack_table(void *served)
{
    uint32_t *table = granule_map_look_up(&slack_tables, served);
    if (table)
        return table;
    table = withheld_map();
    if (!table)
        return NULL;
    uint32_t *present = granule_map_claim(&slack_tables, served, table);
    if (present == table)
        atomic_fetch_add_explicit(&slack_table_bytes, GRANULE_BYTES, memory_order_relaxed);
    return present;
}

static bool is_pass_through(void)
{
    return account.configuration->allocator == pass_through;
}

/* The word of four bytes for what begins at `start` and is as long as blocks are aligned; the
 * table is as large as a granule. NULL without memory. */
static uint32_t *slack_word(const char *start)
{
    size_t alignment = is_pass_through() ? sizeof(uint64_t) : BLOCK_ALIGNMENT;
    uintptr_t served = round_down((uintptr_t)start, GRANULE_BYTES / sizeof(uint32_t) * alignment);
    uint32_t *table = slack_table((void *)served);
    return table ? &table[((uintptr_t)start - served) / alignment] : NULL;
}

/* What is behind the first word of a large slack. False without memory. */
static bool further_words(const char *block, uint32_t *words[2])
{
    words[0] = slack_word(block + BLOCK_ALIGNMENT);
    words[1] = slack_word(block + 2 * BLOCK_ALIGNMENT);
    return words[0] && words[1];
}

/* Without memory for the table nothing is written, and the slack counts as 0. If only the table of
 * the two further words is lacking, it counts as UINT32_MAX. */
static void write_slack(const void *block, uint64_t slack)
{
    uint32_t *word = slack_word(block), *further[2];
    if (word)
        *word = slack < UINT32_MAX ? (uint32_t)slack : UINT32_MAX;
    if (slack < UINT32_MAX || !further_words(block, further))
        return;
    *further[0] = (uint32_t)slack;
    *further[1] = (uint32_t)(slack >> 32);
}

static uint64_t read_slack(const void *block)
{
    const uint32_t *word = slack_word(block);
    uint32_t *further[2];
    if (!word || *word < UINT32_MAX)
        return word ? *word : 0;
    return further_words(block, further) ? *further[0] | (uint64_t)*further[1] << 32 : UINT32_MAX;
}

static void add_resident(void *count, char *start, size_t bytes)
{
    resident_count_add(count, start, bytes);
}

static const uint64_t UNKNOWN = UINT64_MAX;

/* Whether any look at the pages had to count those that were only read. */
static _Atomic bool zero_pages_counted;

/* How many of the mapped bytes are in memory. What the kernel brings in ahead of the blocks by huge
 * pages is not mapped by our account. UNKNOWN in a sandbox, which may end the process for the
 * question. */
static uint64_t heap_resident(uint64_t mapped)
{
    struct resident_count count;
    if (pages_are_in_sandbox())
        return UNKNOWN;
    resident_count_begin(&count);
    granule_map_each_run(add_resident, &count);
    resident_count_end(&count);
    if (!count.is_exact)
        atomic_store_explicit(&zero_pages_counted, true, memory_order_relaxed);
    return count.bytes < mapped ? count.bytes : mapped;
}

static uint64_t nanoseconds_since_start(void)
{
    return pages_are_in_sandbox() ? UNKNOWN : monotonic_ns() - account.started;
}

static void note_peak(void)
{
    if (account.live.requested > account.most_requested)
        account.most_requested = account.live.requested;
    uint64_t last = account.peak.live.requested;
    uint64_t step = last / SNAPSHOT_STEP_SHARE + SNAPSHOT_LEAST_STEP;
    if (step > last / SNAPSHOT_SMALL_SHARE)
        step = last / SNAPSHOT_SMALL_SHARE + 1;
    if (account.live.requested < last + step)
        return;
    uint64_t mapped = mapped_bytes();
    account.peak = (struct snapshot){.nanoseconds = nanoseconds_since_start(),
                                     .live = account.live,
                                     .mapped = mapped,
                                     .resident = heap_resident(mapped),
                                     .cached = account.configuration->allocator->cached_bytes()};
}

static void note_collections(void *argument, const char *group, const char *key, uint64_t number)
{
    struct timeline_point *point = argument;
    if (strcmp(group, "gc") == 0 && strcmp(key, "collections") == 0)
        point->collections = number;
    if (strcmp(group, "gc") == 0 && strcmp(key, "pause_ns") == 0)
        point->pause_ns = number;
    if (strcmp(group, "gc_minor") == 0 && strcmp(key, "collections") == 0)
        point->minor_collections = number;
}

static bool has_collections(void)
{
    const struct allocator *allocator = account.configuration->allocator;
    return allocator->collect && allocator->more_statistics;
}

static void add_to_timeline(uint64_t nanoseconds)
{
    uint64_t mapped = mapped_bytes();
    struct timeline_point point = {.nanoseconds = nanoseconds,
                                   .requested = account.live.requested,
                                   .mapped = mapped,
                                   .resident = heap_resident(mapped)};
    if (has_collections())
        account.configuration->allocator->more_statistics(note_collections, &point);
    timeline_add(&account.timeline, &point, nanoseconds_since_start());
}

/* Called at each allocation and free: between them the heap stays as it is. */
static void note_time(void)
{
    if (account.total_blocks + account.free_calls < account.next_clock)
        return;
    account.next_clock = account.total_blocks + account.free_calls + CALLS_TO_CLOCK;
    uint64_t nanoseconds = nanoseconds_since_start();
    if (nanoseconds != UNKNOWN && timeline_is_due(&account.timeline, nanoseconds))
        add_to_timeline(nanoseconds);
}

/* What one block adds to each sum. A block without usable bytes would count as none
 * (struct change). */
static struct sums measure(const void *block, uint64_t slack)
{
    if (is_pass_through())
        return (struct sums){.blocks = 1, .requested = slack, .usable = slack + (slack == 0)};
    struct block_waste waste = account.configuration->allocator->waste(block);
    uint64_t usable = account.inner.usable_size(block);
    return (struct sums){.blocks = 1,
                         .requested = usable - slack,
                         .usable = usable,
                         .header = waste.header_bytes,
                         .alignment = waste.alignment_bytes};
}

/* One call of the program, as the words of a deferred call. */
struct change {
    uint64_t *calls; /* NULL: it is counted elsewhere */
    struct sums sums;
    uint64_t requested;
};

static struct change unpack(const uintptr_t *words)
{
    return (struct change){.calls = (uint64_t *)words[0],
                           .sums = {.blocks = words[2] > 0,
                                    .requested = words[1],
                                    .usable = words[2],
                                    .header = words[3],
                                    .alignment = words[4]},
                           .requested = words[5]};
}

/* Under the lock. */
static void count_enter(const uintptr_t *words)
{
    struct change change = unpack(words);
    ++*change.calls;
    if (change.sums.blocks == 0)
        return;
    account.live.blocks++;
    account.live.requested += change.sums.requested;
    account.live.usable += change.sums.usable;
    account.live.header += change.sums.header;
    account.live.alignment += change.sums.alignment;
    account.total_blocks++;
    account.total_requested += change.requested;
    account.sizes[change.requested > 1 ? 64 - __builtin_clzll(change.requested - 1) : 0]++;
    note_peak();
    note_time();
}

/* Under the lock. */
static void count_leave(const uintptr_t *words)
{
    struct change change = unpack(words);
    if (change.calls)
        ++*change.calls;
    account.live.blocks -= change.sums.blocks;
    account.live.requested -= change.sums.requested;
    account.live.usable -= change.sums.usable;
    account.live.header -= change.sums.header;
    account.live.alignment -= change.sums.alignment;
    note_time();
}

/* During a fork, when the heap thaws (vm/freeze.h): all that is to be known of the block is in the
 * words. */
static void change_account(deferred_call *count, uint64_t *calls, struct sums sums,
                           uint64_t requested)
{
    const uintptr_t words[DEFERRED_WORDS] = {(uintptr_t)calls, sums.requested, sums.usable,
                                             sums.header,      sums.alignment, requested};
    if (lock_enter(&account.lock)) {
        count(words);
        lock_release(&account.lock);
    } else {
        defer(count, words);
        frozen_end();
    }
}

/* Measures a new block, and writes its slack down. All zero for NULL. */
static struct sums measure_new(const void *block, size_t requested)
{
    if (!block)
        return (struct sums){0};
    uint64_t difference =
        is_pass_through() ? requested : account.inner.usable_size(block) - requested;
    write_slack(block, difference);
    return measure(block, read_slack(block));
}

static void *count_new(void *block, size_t size, uint64_t *calls)
{
    change_account(count_enter, calls, measure_new(block, size), size);
    return block;
}

static void *counted_alloc(size_t size)
{
    return count_new(account.inner.alloc(size), size, &account.malloc_calls);
}

static void *counted_alloc_zeroed(size_t size)
{
    return count_new(account.inner.alloc_zeroed(size), size, &account.calloc_calls);
}

static void *counted_alloc_aligned(size_t alignment, size_t size)
{
    return count_new(account.inner.alloc_aligned(alignment, size), size, &account.aligned_calls);
}

/* Called while the block is still the program's. All zero for a pointer that is no live block,
 * which the allocator will report. */
static struct sums measure_live(const void *block)
{
    if (!is_pass_through() && (!account.inner.owns(block) || account.inner.usable_size(block) == 0))
        return (struct sums){0};
    return measure(block, read_slack(block));
}

static void counted_free(void *block)
{
    change_account(count_leave, &account.free_calls, measure_live(block), 0);
    account.inner.free(block);
}

static void *counted_resize(void *block, size_t size)
{
    struct sums sums = measure_live(block);
    void *resized = account.inner.resize(block, size);
    if (resized)
        change_account(count_leave, NULL, sums, 0);
    return count_new(resized, size, &account.realloc_calls);
}

static struct route start(const struct configuration *configuration, struct route inner,
                          const char *destination)
{
    if (process_is_in_sandbox())
        pages_enter_sandbox();
    account.on = true;
    account.lock = (struct lock)LOCK_INITIALIZER(RANK_ACCOUNT);
    fork_chain_add(&account.lock);
    account.inner = inner;
    account.configuration = configuration;
    account.started = monotonic_ns();
    account.destination = observer_destination(destination, "ALLOTROPE_STATS");
    publish_counter("account_bytes", &slack_table_bytes);
    publish_counter("live_blocks", &account.live.blocks);
    publish_counter("live_requested_bytes", &account.live.requested);
    publish_counter("live_usable_bytes", &account.live.usable);
    publish_counter("live_header_bytes", &account.live.header);
    publish_counter("most_requested_bytes", &account.most_requested);
    publish_counter("total_blocks", &account.total_blocks);
    publish_counter("total_requested_bytes", &account.total_requested);
    publish_counter("malloc_calls", &account.malloc_calls);
    publish_counter("calloc_calls", &account.calloc_calls);
    publish_counter("realloc_calls", &account.realloc_calls);
    publish_counter("aligned_calls", &account.aligned_calls);
    publish_counter("free_calls", &account.free_calls);
    struct route counted = inner;
    counted.alloc = counted_alloc;
    counted.alloc_zeroed = counted_alloc_zeroed;
    counted.alloc_aligned = counted_alloc_aligned;
    counted.free = counted_free;
    counted.resize = counted_resize;
    return counted;
}

/* The report. */

static void emit_options(struct emitter *emitter, const struct configuration *configuration)
{
    const struct option_description *options = configuration->allocator->options;
    emit_begin_object(emitter, "options");
    for (size_t i = 0; i < option_count(configuration->allocator); i++) {
        uint64_t value = option_value(&options[i], configuration->options);
        if (options[i].kind != OPTION_NUMBER)
            emit_string(emitter, options[i].key, options[i].keywords[value]);
        else
            emit_number(emitter, options[i].key, value);
    }
    emit_end_object(emitter);
}

/* Counts by powers of two, with keys like "2^07". Zeros are left out. */
static void emit_powers(struct emitter *emitter, const char *key, const uint64_t *counts,
                        unsigned powers)
{
    emit_begin_object(emitter, key);
    for (unsigned i = 0; i < powers; i++) {
        char name[POWER_KEY_BYTES];
        if (counts[i] > 0)
            emit_number(emitter, write_power_key(name, "", i, ""), counts[i]);
    }
    emit_end_object(emitter);
}

/* What the blocks take with their waste. */
static uint64_t allocated_bytes(const struct sums *sums)
{
    return sums->usable + sums->header + sums->alignment;
}

static void emit_account(struct emitter *emitter)
{
    emit_begin_object(emitter, "calls");
    emit_number(emitter, "malloc", account.malloc_calls);
    emit_number(emitter, "calloc", account.calloc_calls);
    emit_number(emitter, "realloc", account.realloc_calls);
    emit_number(emitter, "aligned", account.aligned_calls);
    emit_number(emitter, "free", account.free_calls);
    emit_end_object(emitter);
    emit_begin_object(emitter, "total");
    emit_number(emitter, "blocks", account.total_blocks);
    emit_number(emitter, "requested_bytes", account.total_requested);
    emit_end_object(emitter);
    emit_powers(emitter, "sizes", account.sizes, sizeof account.sizes / sizeof *account.sizes);
    emit_begin_object(emitter, "live");
    emit_number(emitter, "blocks", account.live.blocks);
    emit_number(emitter, "requested_bytes", account.live.requested);
    emit_number(emitter, "allocated_bytes", allocated_bytes(&account.live));
    emit_end_object(emitter);
}

/* External fragmentation and the allocator's own: mapped bytes that are neither requested nor waste
 * of another kind. They are free blocks that no thread cache holds, and what no block can use. */
static uint64_t external_waste(const struct snapshot *peak, uint64_t rounding)
{
    uint64_t accounted =
        peak->live.requested + peak->live.header + peak->live.alignment + rounding + peak->cached;
    return peak->mapped > accounted ? peak->mapped - accounted : 0;
}

static void emit_if_known(struct emitter *emitter, const char *key, uint64_t number)
{
    if (number != UNKNOWN)
        emit_number(emitter, key, number);
}

static void emit_peak(struct emitter *emitter)
{
    const struct snapshot *peak = &account.peak;
    uint64_t rounding = peak->live.usable - peak->live.requested;
    emit_begin_object(emitter, "peak");
    if (peak->nanoseconds != UNKNOWN)
        emit_seconds(emitter, "time_seconds", peak->nanoseconds);
    emit_number(emitter, "most_requested_bytes", account.most_requested);
    emit_number(emitter, "blocks", peak->live.blocks);
    emit_number(emitter, "requested_bytes", peak->live.requested);
    emit_number(emitter, "allocated_bytes", allocated_bytes(&peak->live));
    emit_number(emitter, "mapped_bytes", peak->mapped);
    emit_if_known(emitter, "resident_bytes", peak->resident);
    emit_begin_object(emitter, "waste");
    emit_number(emitter, "header", peak->live.header);
    emit_number(emitter, "rounding", rounding);
    emit_number(emitter, "alignment", peak->live.alignment);
    emit_number(emitter, "cached", peak->cached);
    emit_number(emitter, "external", external_waste(peak, rounding));
    emit_end_object(emitter);
    emit_end_object(emitter);
}

static void write_timeline(struct json *json)
{
    const struct timeline *timeline = &account.timeline;
    json_begin_array(json, "timeline");
    for (size_t i = 0; i < timeline->count; i++) {
        const struct timeline_point *point = &timeline->points[i];
        json_begin_object(json, NULL);
        json_seconds(json, "seconds", point->nanoseconds);
        json_number(json, "requested_bytes", point->requested);
        json_number(json, "mapped_bytes", point->mapped);
        json_number(json, "resident_bytes", point->resident);
        if (has_collections()) {
            json_number(json, "collections", point->collections);
            json_number(json, "minor_collections", point->minor_collections);
            json_number(json, "pause_ns", point->pause_ns);
        }
        json_end_object(json);
    }
    json_end_array(json);
}

static void emit_policy(struct emitter *emitter, const struct allocator_statistics *statistics)
{
    const struct heap_statistics *heap = &statistics->heap;
    emit_begin_object(emitter, "heap");
    emit_number(emitter, "arenas", statistics->arenas);
    emit_number(emitter, "threads", statistics->threads);
    emit_number(emitter, "free_blocks", heap->free_blocks);
    emit_number(emitter, "free_bytes", heap->free_bytes);
    emit_number(emitter, "cached_blocks", heap->cached_blocks);
    emit_number(emitter, "cached_bytes", heap->cached_bytes);
    emit_number(emitter, "large_blocks", statistics->large_blocks);
    emit_number(emitter, "large_bytes", statistics->large_bytes);
    emit_number(emitter, "splits", heap->splits);
    emit_number(emitter, "merges", heap->merges);
    emit_number(emitter, "searches", heap->searches);
    emit_number(emitter, "tree_depth", heap->tree_depth);
    emit_powers(emitter, "search_lengths", heap->search_lengths,
                sizeof heap->search_lengths / sizeof *heap->search_lengths);
    emit_end_object(emitter);
}

static void emit_system_calls(struct emitter *emitter)
{
    emit_begin_object(emitter, "system_calls");
    emit_number(emitter, "mmap", page_calls.mmap);
    emit_number(emitter, "munmap", page_calls.munmap);
    emit_number(emitter, "munmap_refused", page_calls.unmap_refused);
    emit_number(emitter, "mremap", page_calls.mremap);
    emit_number(emitter, "madvise", page_calls.madvise);
    emit_end_object(emitter);
}

static void emit_memory(struct emitter *emitter)
{
    uint64_t mapped = mapped_bytes(), resident = heap_resident(mapped);
    emit_number(emitter, "mapped_bytes", mapped);
    emit_number(emitter, "mapped_peak_bytes", mapped_peak_bytes());
    emit_number(emitter, "metadata_bytes", metadata_bytes());
    emit_if_known(emitter, "resident_bytes", resident);
    if (resident != UNKNOWN)
        emit_string(emitter, "resident_pages", zero_pages_counted ? "touched" : "written");
}

static bool write_to(int descriptor, bool json, const struct configuration *configuration)
{
    struct emitter emitter;
    struct allocator_statistics statistics;
    outside_statistics(&statistics);
    output_begin(&emitter, descriptor, json, "allotrope.stats/1", configuration);
    emit_options(&emitter, configuration);
    if (account.on) {
        emit_account(&emitter);
        emit_peak(&emitter);
        if (json) /* in a table it would be hundreds of lines */
            write_timeline(&emitter.json);
    }
    emit_memory(&emitter);
    emit_policy(&emitter, &statistics);
    emit_system_calls(&emitter);
    output_more_statistics(&emitter, configuration->allocator);
    emit_number(&emitter, "pointer_faults", pointer_faults());
    return output_end(&emitter);
}

void statistics_write_table(const struct configuration *configuration, int descriptor)
{
    write_to(descriptor, false, configuration);
}

static bool write_account(int file, bool json)
{
    return write_to(file, json, account.configuration);
}

/* Other threads may be counting still. A signal handler that ends the process may have interrupted
 * one that counts: then there is no last point. */
static void write_at_exit(void)
{
    uint64_t nanoseconds = nanoseconds_since_start();
    if (nanoseconds != UNKNOWN && lock_try(&account.lock)) {
        add_to_timeline(nanoseconds);
        lock_release(&account.lock);
    }
    output_write(account.destination, "ALLOTROPE_STATS", write_account);
}

const struct observer statistics_observer = {
    .variable = "ALLOTROPE_STATS", .start = start, .at_exit = write_at_exit};
