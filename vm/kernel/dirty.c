/* SPDX-License-Identifier: MIT
 *
 * dirty.c: see dirty.h.
 *
 * The bitmaps lie in leaves, one for 2 MiB of addresses, with the bits of all consumers; a table of
 * two levels leads to them. Leaves are made when memory is first tracked there, and stay. An
 * address without a leaf is dirty, and so are all pages of a new leaf.
 *
 *   address  | 13 bits: root | 13 bits: branch | 9 bits: page of the leaf | 12 bits |
 *
 * Bits are set and cleared by atomic operations: a thread may track new memory while another
 * harvests.
 */
#include "vm/kernel/dirty.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <linux/userfaultfd.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "vm/granule_map.h"
#include "vm/kernel/kept.h"
#include "vm/kernel/page_scan.h"
#include "vm/kernel/process.h"
#include "vm/metadata.h"
#include "vm/pages.h"
#include "vm/private_memory.h"
#include "vm/syscall.h"

enum { LEAF_PAGES = 512, WORD_PAGES = 64, LEAF_WORDS = LEAF_PAGES / WORD_PAGES };
enum { LEAF_BITS = 21, BRANCH_BITS = 13, ROOT_BITS = 13 };
#define LEAF_BYTES ((uintptr_t)1 << LEAF_BITS)

struct leaf {
    _Atomic uint64_t bits[DIRTY_CONSUMERS][LEAF_WORDS];
};
struct branch {
    struct leaf *_Atomic leaves[1 << BRANCH_BITS];
};

static struct {
    _Atomic(struct branch *) *root; /* NULL: everything is dirty */
    /* Where the kernel writes zero in a child that has memory of its own. */
    volatile uint64_t *own_memory;
    struct kept userfaults;
    userfaultfd_opener *opener; /* or NULL */
    struct dirty_counts counts;
    struct branch *_Atomic spare_branch; /* made by a thread that came second */
    struct leaf *_Atomic spare_leaf;
} dirty = {.userfaults = {.descriptor = -1}};

/* The bitmaps. */

static struct leaf *leaf_of(uintptr_t address)
{
    if (!dirty.root || address >> (LEAF_BITS + BRANCH_BITS + ROOT_BITS))
        return NULL;
    struct branch *branch = atomic_load_explicit(&dirty.root[address >> (LEAF_BITS + BRANCH_BITS)],
                                                 memory_order_acquire);
    size_t index = (address >> LEAF_BITS) & ((1 << BRANCH_BITS) - 1);
    return branch ? atomic_load_explicit(&branch->leaves[index], memory_order_acquire) : NULL;
}

static struct branch *make_branch(uintptr_t address)
{
    struct branch *_Atomic *slot = &dirty.root[address >> (LEAF_BITS + BRANCH_BITS)];
    struct branch *present = atomic_load_explicit(slot, memory_order_acquire);
    if (present)
        return present;
    struct branch *made = atomic_exchange_explicit(&dirty.spare_branch, NULL, memory_order_acquire);
    if (!made)
        made = metadata_alloc(sizeof *made);
    if (!made || atomic_compare_exchange_strong_explicit(slot, &present, made, memory_order_acq_rel,
                                                         memory_order_acquire))
        return made;
    atomic_store_explicit(&dirty.spare_branch, made, memory_order_release);
    return present;
}

/* A new leaf's pages are dirty before anybody can find it. */
static bool make_leaf(uintptr_t address)
{
    if (!dirty.root || address >> (LEAF_BITS + BRANCH_BITS + ROOT_BITS))
        return false;
    struct branch *branch = make_branch(address);
    if (!branch)
        return false;
    struct leaf *_Atomic *slot = &branch->leaves[(address >> LEAF_BITS) & ((1 << BRANCH_BITS) - 1)];
    struct leaf *present = atomic_load_explicit(slot, memory_order_acquire);
    if (present)
        return true;
    struct leaf *made = atomic_exchange_explicit(&dirty.spare_leaf, NULL, memory_order_acquire);
    if (!made && !(made = metadata_alloc(sizeof *made)))
        return false;
    for (int consumer = 0; consumer < DIRTY_CONSUMERS; consumer++)
        for (size_t i = 0; i < LEAF_WORDS; i++)
            atomic_store_explicit(&made->bits[consumer][i], UINT64_MAX, memory_order_relaxed);
    if (!atomic_compare_exchange_strong_explicit(slot, &present, made, memory_order_acq_rel,
                                                 memory_order_acquire))
        atomic_store_explicit(&dirty.spare_leaf, made, memory_order_release);
    return true;
}

/* A word of a leaf, and those of its bits that a range has. */
struct part {
    struct leaf *leaf; /* NULL: there is none */
    size_t word;
    uint64_t mask;
    uintptr_t end; /* of the word, or of the range */
};

static struct part part_at(uintptr_t start, uintptr_t end)
{
    const uintptr_t word_bytes = WORD_PAGES * PAGE_BYTES;
    struct part part = {leaf_of(start), (start / word_bytes) % LEAF_WORDS, UINT64_MAX, 0};
    part.end = round_down(start, word_bytes) + word_bytes;
    if (!part.leaf)
        part.end = round_down(start, LEAF_BYTES) + LEAF_BYTES;
    part.mask <<= start / PAGE_BYTES % WORD_PAGES;
    if (part.leaf && part.end > end)
        part.mask &= UINT64_MAX >> ((part.end - end) / PAGE_BYTES);
    if (part.end > end)
        part.end = end;
    return part;
}

void dirty_set(uintptr_t start, uintptr_t end)
{
    while (start < end) {
        struct part part = part_at(start, end);
        for (int consumer = 0; part.leaf && consumer < DIRTY_CONSUMERS; consumer++)
            atomic_fetch_or_explicit(&part.leaf->bits[consumer][part.word], part.mask,
                                     memory_order_relaxed);
        start = part.end;
    }
}

void dirty_clean(enum dirty_consumer consumer, uintptr_t start, uintptr_t end)
{
    while (start < end) {
        struct part part = part_at(start, end);
        if (part.leaf)
            atomic_fetch_and_explicit(&part.leaf->bits[consumer][part.word], ~part.mask,
                                      memory_order_relaxed);
        start = part.end;
    }
}

/* The dirty pages of the part, each as the bit in its place. */
static uint64_t dirty_bits(const struct part *part, enum dirty_consumer consumer)
{
    if (!part->leaf)
        return part->mask;
    return part->mask &
           atomic_load_explicit(&part->leaf->bits[consumer][part->word], memory_order_relaxed);
}

bool dirty_page(enum dirty_consumer consumer, uintptr_t address)
{
    uintptr_t page = round_down(address, PAGE_BYTES);
    struct part part = part_at(page, page + PAGE_BYTES);
    return dirty_bits(&part, consumer) != 0;
}

/* The first page in [start, end) that is dirty, or is not; `end` if there is none. */
static uintptr_t find_page(enum dirty_consumer consumer, bool is_dirty, uintptr_t start,
                           uintptr_t end)
{
    while (start < end) {
        struct part part = part_at(start, end);
        uint64_t found = dirty_bits(&part, consumer);
        if (!is_dirty)
            found = ~found & part.mask;
        if (found && !part.leaf)
            return start;
        if (found)
            return round_down(start, WORD_PAGES * PAGE_BYTES) +
                   (uintptr_t)__builtin_ctzl(found) * PAGE_BYTES;
        start = part.end;
    }
    return end;
}

bool dirty_next_run(enum dirty_consumer consumer, struct dirty_run *run)
{
    run->start = find_page(consumer, true, run->start, run->end);
    if (run->start == run->end)
        return false;
    run->end = find_page(consumer, false, run->start, run->end);
    return true;
}

/* The kernel. */

static bool is_own_memory(void)
{
    return dirty.own_memory && *dirty.own_memory != 0;
}

static bool open_userfaults(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = USERFAULTS_WRITE_PROTECT_ASYNC};
    enum { FLAGS = O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY };
    long opened = dirty.opener ? dirty.opener(FLAGS) : -ENOSYS;
    if (opened == -ENOSYS)
        opened = SYSCALL_1(SYS_userfaultfd, FLAGS);
    if (!kept_take(&dirty.userfaults, opened)) {
        dirty.counts.refused = "the kernel refuses userfaultfd";
        return false;
    }
    if (!syscall_failed(SYSCALL_3(SYS_ioctl, dirty.userfaults.descriptor, UFFDIO_API, &api)))
        return true;
    dirty.counts.refused = "the kernel's userfaultfd has no WP_ASYNC (Linux 6.7)";
    kept_drop(&dirty.userfaults);
    return false;
}

/* [own memory only] */
static bool register_range(uintptr_t start, uintptr_t end)
{
    if (dirty.counts.provider == DIRTY_NONE || !is_own_memory() ||
        (!kept_is_open(&dirty.userfaults) && !open_userfaults()))
        return false;
    struct uffdio_register range = {.range = {start, end - start}, .mode = UFFDIO_REGISTER_MODE_WP};
    return !syscall_failed(
        SYSCALL_3(SYS_ioctl, dirty.userfaults.descriptor, UFFDIO_REGISTER, &range));
}

bool dirty_track(uintptr_t start, uintptr_t end)
{
    dirty_set(start, end);
    if (dirty.counts.provider == DIRTY_NONE)
        return false;
    bool has_bits = true;
    for (uintptr_t at = round_down(start, LEAF_BYTES); at < end; at += LEAF_BYTES)
        has_bits = make_leaf(at) && has_bits;
    return register_range(start, end) && has_bits;
}

void dirty_untrack(uintptr_t start, uintptr_t end)
{
    dirty_set(start, end);
    if (is_own_memory() && kept_is_open(&dirty.userfaults)) {
        struct uffdio_range range = {start, end - start};
        SYSCALL_3(SYS_ioctl, dirty.userfaults.descriptor, UFFDIO_UNREGISTER, &range);
    }
}

struct dirty_scan dirty_begin(void)
{
    struct dirty_scan scan = {-1};
    if (dirty.counts.provider == DIRTY_ASYNC && is_own_memory())
        scan.page_file = process_file(PROCESS_PAGEMAP);
    return scan;
}

/* Asks the kernel once, and enters what it tells. Returns how far the kernel has come; 0: in doubt.
 * A mapping in the range that is not tracked is a failure (SCAN_CHECK_ASYNC); without that flag it
 * would look clean. */
static uintptr_t scan_some(int page_file, uintptr_t start, uintptr_t end, uint64_t flags)
{
    enum { REGIONS = 64 };
    struct scanned_region regions[REGIONS];
    struct pagemap_scan scan = {
        .size = sizeof scan,
        .flags = flags | SCAN_CHECK_ASYNC,
        .start = start,
        .end = end,
        .regions = (uint64_t)regions,
        .region_count = REGIONS,
        .category_mask = PAGE_WRITTEN,
        .category_anyof_mask = PAGE_PRESENT | PAGE_SWAPPED,
        .return_mask = PAGE_WRITTEN,
    };
    long found = SYSCALL_3(SYS_ioctl, page_file, PAGEMAP_SCAN_REQUEST, &scan);
    if (syscall_failed(found) || found > REGIONS)
        return 0;
    for (long i = 0; i < found; i++)
        dirty_set(regions[i].start, regions[i].end);
    return scan.walk_end > start && scan.walk_end <= end ? scan.walk_end : 0;
}

/* [no bit unseen], [doubt is dirty]: where a part of the range could not be harvested, all of it is
 * dirty to every consumer. */
static bool harvest(const struct dirty_scan *scan, uintptr_t start, uintptr_t end, uint64_t flags)
{
    uintptr_t at = start;
    dirty.counts.scans++;
    if (scan->page_file >= 0 && is_own_memory())
        while (at && at < end)
            at = scan_some(scan->page_file, at, end, flags);
    if (at == end)
        return true;
    dirty.counts.doubts++;
    dirty_set(start, end);
    if (register_range(start, end))
        dirty.counts.retracked++;
    return false;
}

bool dirty_look(const struct dirty_scan *scan, uintptr_t start, uintptr_t end)
{
    return harvest(scan, start, end, 0);
}

bool dirty_reprotect(const struct dirty_scan *scan, uintptr_t start, uintptr_t end)
{
    return harvest(scan, start, end, SCAN_REPROTECT);
}

/* Whether the kernel does what it promises, with four pages. */

enum { TRIAL_PAGES = 4 };

static bool pages_are_dirty(uintptr_t trial, unsigned expected)
{
    unsigned found = 0;
    for (unsigned i = 0; i < TRIAL_PAGES; i++)
        found |= (unsigned)dirty_page(DIRTY_GENERATIONS, trial + i * PAGE_BYTES) << i;
    return found == expected;
}

static bool trial_succeeds(uintptr_t trial)
{
    const uintptr_t end = trial + TRIAL_PAGES * PAGE_BYTES;
    struct dirty_scan scan = dirty_begin();
    for (uintptr_t page = trial; page < end; page += PAGE_BYTES)
        *(volatile char *)page = 1;
    if (scan.page_file < 0 || scan_some(scan.page_file, trial, end, 0) || /* not tracked */
        !dirty_track(trial, end) || !dirty_reprotect(&scan, trial, end))
        return false;
    dirty_clean(DIRTY_GENERATIONS, trial, end);
    if (!dirty_look(&scan, trial, end) || !pages_are_dirty(trial, 0))
        return false;
    *(volatile char *)(trial + PAGE_BYTES) = 2;
    return dirty_look(&scan, trial, end) && pages_are_dirty(trial, 2);
}

static bool make_ready(void)
{
    if (!dirty.own_memory)
        dirty.own_memory = private_memory_map(GRANULE_BYTES);
    if (!dirty.own_memory ||
        syscall_failed(SYSCALL_3(SYS_madvise, dirty.own_memory, PAGE_BYTES, MADV_WIPEONFORK))) {
        dirty.counts.refused = "there is no memory that a child finds wiped";
        return false;
    }
    if (!open_userfaults())
        return false;
    *dirty.own_memory = 1;
    dirty.counts.provider = DIRTY_ASYNC;
    uintptr_t trial = (uintptr_t)dirty.own_memory + GRANULE_BYTES - TRIAL_PAGES * PAGE_BYTES;
    bool succeeds = trial_succeeds(trial);
    dirty_untrack(trial, trial + TRIAL_PAGES * PAGE_BYTES);
    pages_discard((void *)trial, TRIAL_PAGES * PAGE_BYTES);
    if (succeeds)
        return true;
    dirty.counts.refused = "the kernel does not tell which pages were written";
    dirty.counts.provider = DIRTY_NONE;
    kept_drop(&dirty.userfaults);
    return false;
}

void dirty_open_by(userfaultfd_opener *opener)
{
    dirty.opener = opener;
}

enum dirty_provider dirty_open(enum dirty_provider wanted)
{
    dirty.counts = (struct dirty_counts){.provider = DIRTY_NONE};
    if (wanted == DIRTY_NONE)
        return DIRTY_NONE;
    if (!dirty.root)
        dirty.root = metadata_alloc(sizeof *dirty.root << ROOT_BITS);
    if (!dirty.root)
        dirty.counts.refused = "there is no memory";
    else if (make_ready())
        dirty.counts = (struct dirty_counts){.provider = DIRTY_ASYNC};
    return dirty.counts.provider;
}

static void set_all(void)
{
    const uintptr_t branch_bytes = LEAF_BYTES << BRANCH_BITS;
    for (uintptr_t i = 0; dirty.root && i < 1 << ROOT_BITS; i++)
        if (atomic_load_explicit(&dirty.root[i], memory_order_relaxed))
            dirty_set(i * branch_bytes, (i + 1) * branch_bytes);
}

enum dirty_provider dirty_forked(void)
{
    set_all();
    kept_drop(&dirty.userfaults);
    return dirty_open(dirty.counts.provider);
}

struct dirty_counts dirty_counts(void)
{
    return dirty.counts;
}
