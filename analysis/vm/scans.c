/* SPDX-License-Identifier: MIT
 *
 * scans.c: what it costs to ask which pages were written, for each GiB of memory: PAGEMAP_SCAN of
 * clean pages, small and huge; with so many dirty ones, protecting them again; and the file that
 * had to be read before Linux 6.7.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/vm/measure.h"
#include "vm/kernel/dirty.h"

enum { MEBIBYTES = 256, OF_GIBIBYTE = 1024 / MEBIBYTES, ROUNDS = 9, ENTRIES = 4096 };
static const size_t BYTES = (size_t)MEBIBYTES << 20;
static const size_t dirty_counts_of[] = {100, 10000};

/* Tracked, protected and clean. */
static void clean_range(uintptr_t start)
{
    dirty_track(start, start + BYTES);
    struct dirty_scan scan = dirty_begin();
    dirty_reprotect(&scan, start, start + BYTES);
    dirty_clean(DIRTY_GENERATIONS, start, start + BYTES);
}

static double time_look(uintptr_t start)
{
    double times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        struct dirty_scan scan = dirty_begin();
        double begin = cpu_ns();
        if (!dirty_look(&scan, start, start + BYTES))
            return -1;
        times[i] = since(begin);
    }
    return median(times, ROUNDS);
}

/* Beyond what the clean pages take, for each dirty one; these lie apart, each a run of its own. */
static double time_dirty(uintptr_t start, size_t count, double clean)
{
    double times[ROUNDS];
    const size_t apart = BYTES / PAGE / count;
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t page = 0; page < count; page++)
            *(volatile char *)(start + page * apart * PAGE) = 1;
        struct dirty_scan scan = dirty_begin();
        double begin = cpu_ns();
        if (!dirty_reprotect(&scan, start, start + BYTES))
            return -1;
        times[i] = (since(begin) - clean) / (double)count;
    }
    double most_likely = median(times, ROUNDS);
    return most_likely < 0 ? 0 : most_likely;
}

static double time_reading(uintptr_t start)
{
    static uint64_t entries[ENTRIES];
    double times[3];
    int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    for (int i = 0; i < 3; i++) {
        double begin = cpu_ns();
        for (uintptr_t at = start; at < start + BYTES; at += ENTRIES * PAGE)
            if (pread(file, entries, sizeof entries, (off_t)(at / PAGE * sizeof *entries)) <= 0)
                return -1;
        times[i] = since(begin);
    }
    close(file);
    return median(times, 3);
}

static void measure_small_pages(struct json *json)
{
    char *pages = make_pages(BYTES / PAGE);
    uintptr_t start = (uintptr_t)pages;
    clean_range(start);
    double clean = time_look(start);
    say(json, (struct subject){"PAGEMAP_SCAN of a clean GiB", "4 KiB pages", 0},
        clean < 0 ? -1 : clean * OF_GIBIBYTE);
    for (size_t i = 0; i < sizeof dirty_counts_of / sizeof *dirty_counts_of; i++)
        say(json, (struct subject){"PAGEMAP_SCAN, a dirty page", "reprotected", dirty_counts_of[i]},
            time_dirty(start, dirty_counts_of[i], clean));
    double reading = time_reading(start);
    say(json, (struct subject){"reading pagemap, a GiB", "4 KiB pages", 0},
        reading < 0 ? -1 : reading * OF_GIBIBYTE);
    dirty_untrack(start, start + BYTES);
    drop_pages(pages, BYTES / PAGE);
}

static void measure_huge_pages(struct json *json)
{
    const size_t huge = (size_t)2 << 20;
    const struct subject subject = {"PAGEMAP_SCAN of a clean GiB", "2 MiB pages", 0};
    char *room =
        mmap(NULL, BYTES + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        give_up("mmap");
    uintptr_t start = ((uintptr_t)room + huge - 1) & ~(huge - 1);
    if (madvise((void *)start, BYTES, MADV_HUGEPAGE) == 0) {
        memset((void *)start, 1, BYTES);
        clean_range(start);
        double clean = time_look(start);
        say(json, subject, clean < 0 ? -1 : clean * OF_GIBIBYTE);
        dirty_untrack(start, start + BYTES);
    } else {
        say_none(json, subject, "the kernel has no transparent huge pages");
    }
    munmap(room, BYTES + huge);
}

void measure_scans(struct json *json)
{
    dirty_open(DIRTY_ASYNC);
    if (dirty_counts().refused) {
        say_none(json, (struct subject){"PAGEMAP_SCAN of a clean GiB", "4 KiB pages", 0},
                 dirty_counts().refused);
        return;
    }
    measure_small_pages(json);
    measure_huge_pages(json);
}
