/* SPDX-License-Identifier: MIT
 *
 * gc_statistics.c: see gc_statistics.h.
 */
#include "gc/cycle/gc_statistics.h"

#include "alloc/blocks/quarantine.h"
#include "gc/cycle/collect.h"
#include "gc/cycle/concurrent.h"
#include "gc/cycle/snapshot_cycle.h"
#include "gc/cycle/generations.h"
#include "gc/cycle/hiders.h"
#include "gc/cycle/pace.h"
#include "gc/cycle/quarantine.h"
#include "gc/cycle/verify.h"
#include "vm/number.h"

static void visit_histogram(statistic_visitor *visit, void *argument, const uint64_t *pauses)
{
    char key[POWER_KEY_BYTES];
    for (unsigned i = 0; i < PAUSE_BUCKETS; i++)
        if (pauses[i] > 0)
            visit(argument, "gc_pauses", write_power_key(key, "from_", i, "_us"), pauses[i]);
}

static void visit_kind(statistic_visitor *visit, void *argument, const char *name,
                       const struct collect_kind *kind)
{
    visit(argument, name, "collections", kind->collections);
    visit(argument, name, "pause_ns", kind->pause_ns);
    visit(argument, name, "longest_pause_ns", kind->longest_pause_ns);
    visit(argument, name, "cpu_ns", kind->cpu_ns);
    visit(argument, name, "stop_ns", kind->stop_ns);
    visit(argument, name, "root_ns", kind->root_ns);
    visit(argument, name, "mark_ns", kind->mark_ns);
    visit(argument, name, "sweep_ns", kind->sweep_ns);
    visit(argument, name, "marked_blocks", kind->marked_blocks);
}

static void visit_cycles(statistic_visitor *visit, void *argument,
                         const struct collect_statistics *collections)
{
    const struct concurrent_statistics *statistics = concurrent_statistics();
    visit_kind(visit, argument, "gc_first_stop", &collections->first_stop);
    visit(argument, "gc_cycles", "begun", statistics->cycles);
    visit(argument, "gc_cycles", "given_up", statistics->given_up);
    visit(argument, "gc_cycles", "slices", statistics->slices);
    visit(argument, "gc_cycles", "slice_ns", statistics->slice_ns);
    visit(argument, "gc_cycles", "longest_slice_ns", statistics->longest_slice_ns);
    visit(argument, "gc_cycles", "rounds", statistics->rounds);
    visit(argument, "gc_cycles", "round_pages", statistics->round_pages);
    visit(argument, "gc_cycles", "last_pages", statistics->last_pages);
    visit(argument, "gc_cycles", "rescanned_bytes", statistics->rescanned_bytes);
    visit(argument, "gc_cycles", "verified", verify_counts().cycles);
    visit(argument, "gc_cycles", "huge_pages", snapshot_cycle_gathered());
}

static void visit_generations(statistic_visitor *visit, void *argument,
                              const struct collect_statistics *collections)
{
    const struct generations_statistics *statistics = generations_statistics();
    visit_kind(visit, argument, "gc_minor", &collections->minor);
    visit_kind(visit, argument, "gc_full", &collections->full);
    visit(argument, "gc_generations", "looks", statistics->looks);
    visit(argument, "gc_generations", "look_ns", statistics->look_ns);
    visit(argument, "gc_generations", "dirty_pages", statistics->dirty_pages);
    visit(argument, "gc_generations", "rescanned_bytes", statistics->rescanned_bytes);
    visit(argument, "gc_generations", "promoted_bytes", collections->promoted_bytes);
    visit(argument, "gc_generations", "protected_pages", statistics->protected_pages);
    visit(argument, "gc_generations", "protect_ns", statistics->protect_ns);
    visit(argument, "gc_generations", "refused", statistics->refused);
    visit(argument, "gc_generations", "doubts", dirty_counts().doubts);
    visit(argument, "gc_generations", "verified", verify_counts().collections);
    visit(argument, "gc_generations", "verified_stale", verify_counts().stale);
}

static void visit_snapshots(statistic_visitor *visit, void *argument,
                            const struct collect_statistics *collections)
{
    static const char *const ends[SNAPSHOT_STATES] = {
        [SNAPSHOT_DONE] = "done",
        [SNAPSHOT_NO_CHILD] = "no_child",
        [SNAPSHOT_UNREADABLE] = "unreadable",
        [SNAPSHOT_LACKING] = "lacking",
        [SNAPSHOT_DIED] = "ended_early",
    };
    const struct snapshot_statistics *statistics = snapshot_statistics();
    visit_kind(visit, argument, "gc_leak_stop", &collections->leak_stop);
    for (unsigned i = SNAPSHOT_DONE; i < SNAPSHOT_STATES; i++)
        visit(argument, "gc_snapshots", ends[i], statistics->ended[i]);
    visit(argument, "gc_snapshots", "fork_ns", statistics->fork_ns);
    visit(argument, "gc_snapshots", "longest_fork_ns", statistics->longest_fork_ns);
    visit(argument, "gc_snapshots", "ns", statistics->ns);
    visit(argument, "gc_snapshots", "cpu_ns", statistics->cpu_ns);
    visit(argument, "gc_snapshots", "root_bytes", statistics->root_bytes);
}

static void visit_quarantine(statistic_visitor *visit, void *argument,
                             const struct collect_statistics *collections)
{
    visit(argument, "gc_quarantine", "retired_bytes", quarantine_retired_bytes());
    visit(argument, "gc_quarantine", "held_blocks", collections->held_blocks);
    visit(argument, "gc_quarantine", "held_bytes", collections->held_bytes);
    visit(argument, "gc_quarantine", "released_by_age", quarantine_aged_blocks());
    visit(argument, "gc_quarantine", "written_after_free", quarantine_written_blocks());
}

static void visit_hidden(statistic_visitor *visit, void *argument,
                         const struct collect_statistics *collections,
                         const struct gc_figures *figures)
{
    visit(argument, "gc_hidden", "known_hiders", hiders_count());
    visit(argument, "gc_hidden", "pinned_blocks", collections->pinned_blocks);
    visit(argument, "gc_hidden", "suspected_blocks", collections->suspected_blocks);
    visit(argument, "gc_hidden", "suspected_bytes", collections->suspected_bytes);
    visit(argument, "gc_hidden", "reclaimed_blocks", collections->reclaimed_blocks);
    visit(argument, "gc_hidden", "suspects", collections->suspects);
    visit(argument, "gc_hidden", "pointed_to_again", collections->pointed_to);
    visit(argument, "gc_hidden", "used_again", figures->proofs);
    visit(argument, "gc_hidden", "keeps_leaks", figures->keeps_leaks);
}

void gc_statistics_visit(const struct gc_figures *figures, statistic_visitor *visit, void *argument)
{
    static const char *const causes[COLLECT_CAUSES] = {
        [CAUSE_FULL] = "heap_full",        [CAUSE_EXHAUSTED] = "memory_exhausted",
        [CAUSE_LIMIT] = "limit",           [CAUSE_EVERY] = "every",
        [CAUSE_ASKED] = "asked",           [CAUSE_VERIFY] = "to_verify",
        [CAUSE_CYCLE] = "cycle_to_verify", [CAUSE_LEAKS] = "leaks",
    };
    const struct collect_statistics *statistics = collect_statistics();
    const struct collection_statistics *driver = statistics->driver;
    visit(argument, "gc", "collections", driver->collections);
    visit(argument, "gc", "pause_ns", driver->pause_ns);
    visit(argument, "gc", "longest_pause_ns", driver->longest_pause_ns);
    visit(argument, "gc", "cpu_ns", driver->cpu_ns);
    visit(argument, "gc", "given_up_ns", driver->given_up_ns);
    visit(argument, "gc", "stop_ns", driver->stop_ns);
    visit(argument, "gc", "longest_stop_ns", driver->longest_stop_ns);
    visit(argument, "gc", "root_ns", driver->root_ns);
    visit(argument, "gc", "root_bytes", driver->root_bytes);
    visit(argument, "gc", "root_indirect_bytes", driver->root_indirect_bytes);
    visit(argument, "gc", "root_mappings", driver->root_mappings);
    visit(argument, "gc", "mark_ns", driver->mark_ns);
    visit(argument, "gc", "marked_blocks", statistics->marked_blocks);
    visit(argument, "gc", "marked_bytes", statistics->marked_bytes);
    visit(argument, "gc", "mark_overflows", statistics->mark_overflows);
    visit(argument, "gc", "markers", statistics->most_markers);
    visit(argument, "gc", "sweep_ns", driver->sweep_ns);
    visit(argument, "gc", "freed_blocks", statistics->freed_blocks);
    visit(argument, "gc", "freed_bytes", statistics->freed_bytes);
    visit(argument, "gc", "live_bytes", driver->live_bytes);
    visit(argument, "gc", "stopped_threads", driver->stopped_threads);
    visit(argument, "gc", "next_collection_bytes", pace_goal());
    visit_hidden(visit, argument, statistics, figures);
    if (figures->quarantines)
        visit_quarantine(visit, argument, statistics);
    for (unsigned i = 0; i < COLLECT_CAUSES; i++)
        visit(argument, "gc_causes", causes[i], statistics->causes[i]);
    for (unsigned i = 1; i < STOP_FAILURES; i++)
        visit(argument, "gc_given_up", collection_failures[i], driver->given_up[i]);
    visit(argument, "gc_given_up", "roots_unreadable", driver->given_up_roots);
    visit(argument, "gc_given_up", "not_available", driver->unavailable);
    if (generations_are_on())
        visit_generations(visit, argument, statistics);
    if (concurrent_is_on())
        visit_cycles(visit, argument, statistics);
    if (figures->reports || collect_has_snapshots())
        visit_snapshots(visit, argument, statistics);
    visit_histogram(visit, argument, driver->pauses);
    utilisation_visit(driver->utilisation, visit, argument);
}
