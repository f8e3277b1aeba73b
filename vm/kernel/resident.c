/* SPDX-License-Identifier: MIT
 *
 * resident.c: see resident.h.
 *
 * The PAGEMAP_SCAN ioctl (Linux 6.7) walks page tables and returns runs, so a reservation of
 * terabytes costs as little as what is in it. Before it there is the file itself, eight bytes for
 * each page, also of a reservation.
 */
#include "vm/kernel/resident.h"

#include <errno.h>
#include <fcntl.h>

#include "vm/kernel/page_scan.h"
#include "vm/kernel/process.h"
#include "vm/pages.h"
#include "vm/syscall.h"

/* Bits of an entry of pagemap. */
static const uint64_t ENTRY_PRESENT = UINT64_C(1) << 63, ENTRY_SWAPPED = UINT64_C(1) << 62,
                      ENTRY_FILE = UINT64_C(1) << 61, ENTRY_ALONE = UINT64_C(1) << 56;

static int page_file = -1;
static bool has_scan = true;

/* Which of the pages that the process has are visited. */
enum selection { WITHOUT_FILES, ALL_PAGES };

/* Where to look, and who is told. */
struct walk {
    int file;
    uintptr_t start, end;
    enum selection selection;
    resident_visitor *visit;
    void *argument;
};

/* From `start` on, as far as there is room for what is found. */
static long scan_some(const struct walk *walk, uintptr_t start, struct scanned_region *regions,
                      size_t count, uintptr_t *stopped_at)
{
    const uint64_t left_out = walk->selection == ALL_PAGES ? PAGE_ZERO : PAGE_FILE | PAGE_ZERO;
    struct pagemap_scan scan = {
        .size = sizeof scan,
        .start = start,
        .end = walk->end,
        .regions = (uint64_t)regions,
        .region_count = count,
        .category_inverted = left_out,
        .category_mask = left_out,
        .category_anyof_mask = PAGE_PRESENT | PAGE_SWAPPED,
        .return_mask = PAGE_PRESENT | PAGE_SWAPPED,
    };
    long found = SYSCALL_3(SYS_ioctl, walk->file, PAGEMAP_SCAN_REQUEST, &scan);
    *stopped_at = scan.walk_end;
    return found;
}

/* Returns 0, or the error of the kernel. Everything before `reached` has been visited then. */
static long each_by_scan(const struct walk *walk, uintptr_t *reached)
{
    enum { REGIONS = 32 };
    struct scanned_region regions[REGIONS];
    for (*reached = walk->start; *reached < walk->end;) {
        uintptr_t stopped_at;
        long found = scan_some(walk, *reached, regions, REGIONS, &stopped_at);
        if (syscall_failed(found))
            return found;
        for (long i = 0; i < found; i++)
            walk->visit(walk->argument, regions[i].start, regions[i].end,
                        (regions[i].categories & PAGE_PRESENT) != 0);
        if (found < REGIONS || stopped_at <= *reached)
            return 0;
        *reached = stopped_at;
    }
    return 0;
}

/* ENTRY_PRESENT or ENTRY_SWAPPED; 0: the page is not visited. */
static uint64_t kind_of(uint64_t entry, enum selection selection)
{
    return selection == ALL_PAGES || !(entry & ENTRY_FILE) ? entry & (ENTRY_PRESENT | ENTRY_SWAPPED)
                                                           : 0;
}

/* kind: of all its pages. */
static void visit_run(const struct walk *walk, uintptr_t start, uintptr_t end, uint64_t kind)
{
    if (kind)
        walk->visit(walk->argument, start, end, kind == ENTRY_PRESENT);
}

enum { ENTRIES = 512 }; /* four kilobytes: stacks may be small. More make it little faster */

/* From `start` on. Returns how many were read; 0: none can be. */
static size_t read_entries(int file, uintptr_t start, uintptr_t end, uint64_t entries[ENTRIES])
{
    size_t pages = (end - start) / PAGE_BYTES;
    if (pages > ENTRIES)
        pages = ENTRIES;
    long bytes = SYSCALL_4(SYS_pread64, file, entries, pages * sizeof entries[0],
                           start / PAGE_BYTES * sizeof entries[0]);
    return syscall_failed(bytes) ? 0 : (size_t)bytes / sizeof entries[0];
}

static bool each_by_entries(const struct walk *walk)
{
    uint64_t entries[ENTRIES], kind = 0; /* of the pages from `run` on, to where we are */
    uintptr_t run = walk->start;
    for (uintptr_t start = walk->start; start < walk->end;) {
        size_t count = read_entries(walk->file, start, walk->end, entries);
        if (count == 0)
            return false;
        for (size_t i = 0; i < count; i++, start += PAGE_BYTES) {
            uint64_t next = kind_of(entries[i], walk->selection);
            if (next == kind)
                continue;
            visit_run(walk, run, start, kind);
            run = start;
            kind = next;
        }
    }
    visit_run(walk, run, walk->end, kind);
    return true;
}

/* Only a kernel that does not know scans is not asked for one again. */
static void note_failed_scan(long error)
{
    has_scan = error != -ENOTTY && error != -EINVAL;
}

bool resident_open(void)
{
    const struct walk nowhere = {.file = process_file(PROCESS_PAGEMAP)};
    uintptr_t stopped_at;
    page_file = nowhere.file;
    if (page_file >= 0 && has_scan) {
        long error = scan_some(&nowhere, 0, NULL, 0, &stopped_at);
        if (syscall_failed(error))
            note_failed_scan(error);
    }
    return page_file >= 0;
}

bool resident_is_slow(void)
{
    return !has_scan;
}

static bool each(const struct walk *walk)
{
    struct walk rest = *walk;
    if (walk->file < 0)
        return false;
    if (has_scan) {
        long error = each_by_scan(walk, &rest.start);
        if (error == 0)
            return true;
        note_failed_scan(error);
    }
    return each_by_entries(&rest);
}

bool resident_each(uintptr_t start, uintptr_t end, resident_visitor *visit, void *argument)
{
    const struct walk walk = {page_file, start, end, WITHOUT_FILES, visit, argument};
    return each(&walk);
}

bool resident_each_shared(uintptr_t start, uintptr_t end, resident_visitor *visit, void *argument)
{
    const struct walk walk = {page_file, start, end, ALL_PAGES, visit, argument};
    return each(&walk);
}

size_t resident_alone(uintptr_t start, uintptr_t end)
{
    uint64_t entries[ENTRIES];
    size_t pages = 0;
    while (start < end) {
        size_t count = read_entries(page_file, start, end, entries);
        if (count == 0)
            return 0;
        for (size_t i = 0; i < count; i++)
            pages += (entries[i] & ENTRY_PRESENT) && (entries[i] & ENTRY_ALONE);
        start += count * PAGE_BYTES;
    }
    return pages * PAGE_BYTES;
}

bool resident_is_huge(uintptr_t start, uintptr_t end)
{
    struct scanned_region region = {0};
    struct pagemap_scan scan = {
        .size = sizeof scan,
        .start = start,
        .end = end,
        .regions = (uint64_t)&region,
        .region_count = 1,
        .category_mask = PAGE_HUGE,
        .return_mask = PAGE_HUGE,
    };
    long found = SYSCALL_3(SYS_ioctl, page_file, PAGEMAP_SCAN_REQUEST, &scan);
    return !syscall_failed(found) && found == 1 && region.start == start && region.end == end;
}

/* Counts. */

/* The file is opened anew each time: a forked child's is another, and the program may close what it
 * finds open. By way of the calling thread: see process_open_file. */
void resident_count_begin(struct resident_count *count)
{
    long opened =
        SYSCALL_4(SYS_openat, AT_FDCWD, "/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    *count = (struct resident_count){.page_file = syscall_failed(opened) ? -1 : (int)opened,
                                     .is_exact = true};
}

static void add_readable(void *sum, uintptr_t start, uintptr_t end, bool readable)
{
    if (readable)
        *(uint64_t *)sum += end - start;
}

/* Only the ioctl tells the page of zeros from others. The kernels of before Linux 6.17 that were
 * not mended since do not know the huge one for what it is. */
void resident_count_add(struct resident_count *count, char *start, size_t bytes)
{
    uint64_t sum = 0;
    const struct walk walk = {count->page_file, (uintptr_t)start, (uintptr_t)start + bytes,
                              WITHOUT_FILES,    add_readable,     &sum};
    uintptr_t reached;
    if (count->page_file < 0 || each_by_scan(&walk, &reached) != 0) {
        sum = pages_resident(start, bytes);
        count->is_exact = false;
    }
    count->bytes += sum;
}

void resident_count_end(struct resident_count *count)
{
    if (count->page_file >= 0)
        process_close(count->page_file);
}
