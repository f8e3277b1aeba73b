/* SPDX-License-Identifier: MIT
 *
 * policy_pages.c: old pages are protected against writing, and a trap tells which are written.
 *
 * Invariant protected-is-clean: while the mutator runs, a page in use is protected if and only if
 * its bit is clear. Pages behind those in use are not protected and have clear bits; their bits
 * are set when the mutator takes them (policy_allocated_old).
 *
 * The collector unprotects the pages that it writes to, one at a time, and protects what is dirty
 * again when it has finished: runs of pages in one call.
 *
 * With -DORACLE nothing is protected. Which pages are dirty is read from a file that a run with
 * traps has written: what a `dirty` without cost would tell.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "bench_programs/runtime/page_bits.h"
#include "bench_programs/runtime/policy.h"
#include "bench_programs/runtime/remembered_set.h"
#include "bench_programs/runtime/scavenge.h"

static FILE *record; /* for each scavenge: how many pages are dirty, and which */

static void record_failed(void)
{
    heap_fail("the record of dirty pages is short, or cannot be written");
}

static void scan_dirty_pages(void)
{
    size_t pages = pages_in_use();
    for (size_t page = next_dirty_page(0); page < pages; page = next_dirty_page(page + 1)) {
        policy_counters.dirty++;
        visit_slots(page_start(page), page_start(page + 1), remember_if_young);
    }
}

#ifndef ORACLE
const char policy_name[] = "pages";

static bool protect(size_t first, size_t end, int access)
{
    return mprotect((void *)page_start(first), (end - first) * RUNTIME_PAGE, access) == 0;
}

/* The kernel has a limit of mappings, and each unprotected page among others is one. */
static void unprotect_all(void)
{
    policy_counters.refused++;
    if (!protect(0, pages_in_use(), PROT_READ | PROT_WRITE))
        heap_fail("pages cannot be unprotected");
    for (size_t page = 0; page < pages_in_use(); page++)
        page_set_dirty(page);
}

static void unprotect(size_t page)
{
    page_set_dirty(page);
    if (!protect(page, page + 1, PROT_READ | PROT_WRITE))
        unprotect_all();
}

static void trap(int signal_number, siginfo_t *information, void *context)
{
    (void)context;
    uintptr_t address = (uintptr_t)information->si_addr;
    if (address < heap_old_start || address >= heap.old_end || page_is_dirty(page_of(address))) {
        signal(signal_number, SIG_DFL);
        return;
    }
    policy_counters.traps++;
#ifdef BARRIER_BROKEN
    protect(page_of(address), page_of(address) + 1, PROT_READ | PROT_WRITE);
#else
    unprotect(page_of(address));
#endif
}

void policy_open(const char *file)
{
    page_bits_open();
    remembered_open();
    record = file ? fopen(file, "wb") : NULL;
    if (file && !record)
        record_failed();
}

void policy_start(void)
{
    struct sigaction action = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    policy_clean();
}

static void write_record(void)
{
    size_t pages = pages_in_use();
    uint32_t count = 0;
    for (size_t page = next_dirty_page(0); page < pages; page = next_dirty_page(page + 1))
        count++;
    if (fwrite(&count, sizeof count, 1, record) != 1)
        record_failed();
    for (size_t page = next_dirty_page(0); page < pages; page = next_dirty_page(page + 1)) {
        uint32_t entry = (uint32_t)page;
        if (fwrite(&entry, sizeof entry, 1, record) != 1)
            record_failed();
    }
}

static size_t pages_before; /* in use when the scavenge began: these are protected or dirty */

void policy_visit_roots(slot_visitor *visit)
{
    if (record)
        write_record();
    pages_before = pages_in_use();
    scan_dirty_pages();
    remembered_visit(visit);
}

/* What this takes is no search for roots and no copying. */
static void unprotect_for_collector(size_t page)
{
    uint64_t start = bookkeeping_begin();
    unprotect(page);
    policy_counters.unprotected++;
    bookkeeping_end(start);
}

void policy_before_write(uintptr_t start, uintptr_t end)
{
    for (size_t page = page_of(start); page < page_of(end + RUNTIME_PAGE - 1); page++)
        if (page_is_dirty(page))
            continue;
        else if (page < pages_before)
            unprotect_for_collector(page);
        else
            page_set_dirty(page); /* never protected yet: protected by policy_clean */
}

void policy_clean(void)
{
    size_t pages = pages_in_use();
    for (size_t page = next_dirty_page(0); page < pages; page = next_dirty_page(page)) {
        size_t end = page;
        while (end < pages && page_is_dirty(end))
            page_set_clean(end++);
        if (!protect(page, end, PROT_READ))
            heap_fail("pages cannot be protected");
        page = end;
    }
    if (record && fflush(record) != 0)
        record_failed();
}

void policy_allocated_old(uintptr_t start, uintptr_t end)
{
    size_t page = page_of(start + RUNTIME_PAGE - 1); /* the first that was not in use */
    for (; page < page_of(end + RUNTIME_PAGE - 1); page++)
        page_set_dirty(page);
}
#else
const char policy_name[] = "oracle";

void policy_open(const char *file)
{
    page_bits_open();
    remembered_open();
    record = file ? fopen(file, "rb") : NULL;
    if (!record)
        heap_fail("the oracle needs file=NAME, the record of a run with pages");
}

/* What this takes no `dirty` without cost would take. */
static void read_record(void)
{
    uint64_t start = bookkeeping_begin();
    uint32_t count;
    if (fread(&count, sizeof count, 1, record) != 1)
        record_failed();
    for (uint32_t i = 0; i < count; i++) {
        uint32_t page;
        if (fread(&page, sizeof page, 1, record) != 1 || page >= pages_in_use())
            record_failed();
        page_set_dirty(page);
    }
    bookkeeping_end(start);
}

void policy_visit_roots(slot_visitor *visit)
{
    read_record();
    scan_dirty_pages();
    remembered_visit(visit);
}

void policy_clean(void)
{
    memset(page_bits, 0, pages_in_use() / 8 + sizeof *page_bits);
}

#endif
