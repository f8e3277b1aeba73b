/* SPDX-License-Identifier: MIT
 *
 * providers.c: what it costs to learn which pages were written, in three ways, at 1 to 10,000
 * pages.
 *
 *   async      vm/kernel/dirty.h: the kernel takes the protection off and notes it
 *   mprotect   the page is protected; the handler of SIGSEGV notes it and unprotects it
 *   sigbus     userfaultfd write protection with UFFD_FEATURE_SIGBUS; the handler of SIGBUS does
 *
 * Three costs are measured of each way. All pages are protected, by one call. Each page is written
 * for the first time, in random order. The pages that were written are listed; the handlers have
 * their list already. Then read(2) is tried into a protected page: the kernel does not run a
 * handler for its own writes, so under the last two it fails with EFAULT. That is why these two
 * live here and never under the collector.
 */
#include <fcntl.h>
#include <linux/ioctl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "analysis/vm/measure.h"
#include "vm/kernel/dirty.h"

static const size_t page_counts[] = {1, 10, 100, 1000, 10000};
enum { COUNTS = sizeof page_counts / sizeof *page_counts, MOST_PAGES = 10000 };
enum { ROUNDS_OF_PAGES = 20000 }; /* as many rounds as write so many pages, within bounds */
enum { LEAST_ROUNDS = 5, MOST_ROUNDS = 100 };

static char *pages;
static uint32_t order[MOST_PAGES];
static int userfaults = -1;

/* What the handlers have noted. */
static uint32_t written[MOST_PAGES];
static volatile size_t written_count;

struct provider {
    const char *name;
    int signal; /* 0: none */
    /* Why not; NULL: can. */
    const char *(*open)(void);
    void (*close)(void);
    void (*protect)(size_t count);
    void (*unprotect)(size_t page);
    size_t (*list)(size_t count); /* how many were written */
};

static void note(const char *address, void (*unprotect)(size_t))
{
    size_t page = (size_t)(address - pages) / PAGE;
    if (address < pages || page >= MOST_PAGES)
        _exit(3); /* a fault of our own, which no handler mends */
    written[written_count++] = (uint32_t)page;
    unprotect(page);
}

static size_t count_noted(size_t count)
{
    (void)count;
    return written_count;
}

/* mprotect. */

static const char *open_nothing(void)
{
    return NULL;
}

static void close_nothing(void)
{
}

static void protect_by_mprotect(size_t count)
{
    mprotect(pages, count * PAGE, PROT_READ);
}

static void unprotect_by_mprotect(size_t page)
{
    mprotect(pages + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
}

/* userfaultfd and SIGBUS. */

static const char *open_sigbus(void)
{
    struct uffdio_api api = {.api = UFFD_API,
                             .features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_PAGEFAULT_FLAG_WP};
    struct uffdio_register range = {.range = {(uintptr_t)pages, MOST_PAGES * PAGE},
                                    .mode = UFFDIO_REGISTER_MODE_WP};
    userfaults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (userfaults < 0)
        return "the kernel refuses userfaultfd";
    if (ioctl(userfaults, UFFDIO_API, &api) == 0 && ioctl(userfaults, UFFDIO_REGISTER, &range) == 0)
        return NULL;
    close(userfaults);
    return "the kernel's userfaultfd protects no pages";
}

static void close_sigbus(void)
{
    close(userfaults);
}

static void protect_by_userfaults(size_t first, size_t count, uint64_t mode)
{
    struct uffdio_writeprotect range = {.range = {(uintptr_t)pages + first * PAGE, count * PAGE},
                                        .mode = mode};
    ioctl(userfaults, UFFDIO_WRITEPROTECT, &range);
}

static void protect_by_sigbus(size_t count)
{
    protect_by_userfaults(0, count, UFFDIO_WRITEPROTECT_MODE_WP);
}

static void unprotect_by_sigbus(size_t page)
{
    protect_by_userfaults(page, 1, 0);
}

/* The kernel itself. */

static const char *open_async(void)
{
    dirty_open(DIRTY_ASYNC);
    if (dirty_counts().refused)
        return dirty_counts().refused;
    dirty_track((uintptr_t)pages, (uintptr_t)pages + MOST_PAGES * PAGE);
    return NULL;
}

static void close_async(void)
{
    dirty_untrack((uintptr_t)pages, (uintptr_t)pages + MOST_PAGES * PAGE);
}

static void protect_by_kernel(size_t count)
{
    struct dirty_scan scan = dirty_begin();
    uintptr_t start = (uintptr_t)pages, end = start + count * PAGE;
    dirty_reprotect(&scan, start, end);
    dirty_clean(DIRTY_GENERATIONS, start, end);
}

static size_t list_of_kernel(size_t count)
{
    struct dirty_scan scan = dirty_begin();
    uintptr_t start = (uintptr_t)pages, end = start + count * PAGE;
    dirty_look(&scan, start, end);
    size_t found = 0;
    for (struct dirty_run run = {start, end}; dirty_next_run(DIRTY_GENERATIONS, &run);
         run = (struct dirty_run){run.end, end})
        found += (run.end - run.start) / PAGE;
    return found;
}

static const struct provider providers[] = {
    {"async", 0, open_async, close_async, protect_by_kernel, NULL, list_of_kernel},
    {"mprotect", SIGSEGV, open_nothing, close_nothing, protect_by_mprotect, unprotect_by_mprotect,
     count_noted},
    {"sigbus", SIGBUS, open_sigbus, close_sigbus, protect_by_sigbus, unprotect_by_sigbus,
     count_noted},
};
static const struct provider *chosen;

static void handle(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    note(info->si_addr, chosen->unprotect);
}

/* The three steps of a round, in nanoseconds for all pages. */
enum step { PROTECT, WRITE, LIST, STEPS };
static const char *const step_names[STEPS] = {"protect", "first write", "list"};

static void run_round(size_t count, double times[STEPS])
{
    written_count = 0;
    double begin = cpu_ns();
    chosen->protect(count);
    times[PROTECT] = since(begin);
    begin = cpu_ns();
    for (size_t i = 0; i < count; i++)
        *(volatile char *)(pages + order[i] * PAGE) = 2;
    times[WRITE] = since(begin);
    begin = cpu_ns();
    if (chosen->list(count) != count)
        give_up(chosen->name);
    times[LIST] = since(begin);
}

static void measure_rounds(struct json *json, size_t count)
{
    double times[STEPS], per_page[STEPS][MOST_ROUNDS];
    size_t rounds = ROUNDS_OF_PAGES / count;
    rounds = rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds < LEAST_ROUNDS ? LEAST_ROUNDS : rounds;
    shuffle(order, count);
    run_round(count, times); /* for caches and page tables */
    for (size_t i = 0; i < rounds; i++) {
        run_round(count, times);
        for (int step = 0; step < STEPS; step++)
            per_page[step][i] = times[step] / (double)count;
    }
    for (int step = 0; step < STEPS; step++)
        say(json, (struct subject){step_names[step], chosen->name, count},
            median(per_page[step], rounds));
}

/* A figure of 0: the system call succeeded. */
static void ask_system_call(struct json *json)
{
    const struct subject subject = {"read(2) into a protected page", chosen->name, 0};
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], "x", 1) != 1)
        give_up("pipe");
    chosen->protect(1);
    if (read(ends[0], pages, 1) == 1)
        say(json, subject, 0);
    else
        say_none(json, subject, "EFAULT");
    if (chosen->unprotect)
        chosen->unprotect(0);
    close(ends[0]);
    close(ends[1]);
}

static void measure_provider(struct json *json)
{
    const char *refused = chosen->open();
    if (refused) {
        for (int step = 0; step < STEPS; step++)
            for (int i = 0; i < COUNTS; i++)
                say_none(json, (struct subject){step_names[step], chosen->name, page_counts[i]},
                         refused);
        return;
    }
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO}, before;
    if (chosen->signal)
        sigaction(chosen->signal, &action, &before);
    for (int i = 0; i < COUNTS; i++)
        measure_rounds(json, page_counts[i]);
    ask_system_call(json);
    if (chosen->signal)
        sigaction(chosen->signal, &before, NULL);
    chosen->close();
}

void measure_providers(struct json *json)
{
    pages = make_pages(MOST_PAGES);
    for (size_t i = 0; i < sizeof providers / sizeof *providers; i++) {
        chosen = &providers[i];
        measure_provider(json);
    }
    drop_pages(pages, MOST_PAGES);
}

/* dirty_open tries it out: where it succeeds the kernel has told what was written. */
void measure_dirty(struct json *json)
{
    const struct subject subject = {"open", "async", 0};
    double begin = cpu_ns();
    dirty_open(DIRTY_ASYNC);
    double ns = since(begin);
    if (dirty_counts().refused)
        say_none(json, subject, dirty_counts().refused);
    else
        say(json, subject, ns);
}
