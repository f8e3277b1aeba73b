/* SPDX-License-Identifier: MIT
 *
 * policy_kernel.c: the kernel tells which old pages are dirty (vm/kernel/dirty.h): what the paper
 * calls `dirty`, as Linux has it.
 */
#include "bench_programs/runtime/policy.h"
#include "bench_programs/runtime/remembered_set.h"
#include "bench_programs/runtime/scavenge.h"
#include "vm/kernel/dirty.h"

const char policy_name[] = "kernel";

static uintptr_t end_in_use(void)
{
    return (heap.old_top + RUNTIME_PAGE - 1) & ~(uintptr_t)(RUNTIME_PAGE - 1);
}

void policy_open(const char *file)
{
    if (file)
        heap_fail("the kernel has no use for a file");
    remembered_open();
    if (dirty_open(DIRTY_ASYNC) != DIRTY_ASYNC || !dirty_track(heap_old_start, heap.old_end))
        heap_fail(dirty_counts().refused ? dirty_counts().refused : "the kernel tracks no memory");
}

void policy_start(void)
{
    policy_clean();
}

/* The kernel's call is no search for roots: it counts as other, as the calls of page protection do,
 * so that like is compared with like. */
static void look(void)
{
    uint64_t start = bookkeeping_begin();
    struct dirty_scan scan = dirty_begin();
    dirty_look(&scan, heap_old_start, end_in_use());
    bookkeeping_end(start);
}

static uintptr_t end_before; /* of the pages in use when the scavenge began: protected or dirty */

void policy_visit_roots(slot_visitor *visit)
{
    end_before = end_in_use();
    look();
    struct dirty_run run = {heap_old_start, end_in_use()};
    for (; dirty_next_run(DIRTY_GENERATIONS, &run);
         run = (struct dirty_run){run.end, end_in_use()}) {
        policy_counters.dirty += (run.end - run.start) / RUNTIME_PAGE;
#ifndef BARRIER_BROKEN
        visit_slots(run.start, run.end, remember_if_young);
#endif
    }
    remembered_visit(visit);
}

/* The fault of the collector's own first write to a page is no search for roots either: it is taken
 * here, as policy_pages.c unprotects the page here. */
static void fault_for_collector(uintptr_t page)
{
    uint64_t start = bookkeeping_begin();
    volatile char *first = (char *)page;
    *first = *first;
    dirty_set(page, page + RUNTIME_PAGE);
    policy_counters.unprotected++;
    bookkeeping_end(start);
}

void policy_before_write(uintptr_t start, uintptr_t end)
{
    uintptr_t page = start & ~(uintptr_t)(RUNTIME_PAGE - 1);
    for (; page < end && page < end_before; page += RUNTIME_PAGE)
        if (!dirty_page(DIRTY_GENERATIONS, page))
            fault_for_collector(page);
}

/* The world is one thread, and it stands here: what the scavenge wrote is no news. */
void policy_clean(void)
{
    struct dirty_scan scan = dirty_begin();
    dirty_reprotect(&scan, heap_old_start, end_in_use());
    dirty_clean(DIRTY_GENERATIONS, heap_old_start, end_in_use());
}
