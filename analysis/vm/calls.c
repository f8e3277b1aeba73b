/* SPDX-License-Identifier: MIT
 *
 * calls.c: system calls on memory: one that does nothing, mprotect, madvise.
 *
 * Pages are in memory before each call. The figure is for the whole call, on so many pages.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "analysis/vm/measure.h"

/* linux/mman.h of 6.13; Debian 12's is older. */
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

enum { MOST_PAGES = 10000, BATCHES = 15 };
static const size_t page_counts[] = {1, 100, 10000};
enum { COUNTS = sizeof page_counts / sizeof *page_counts };

struct advice {
    const char *name;
    int advice;
};

struct call {
    char *pages;
    size_t count;
    const struct advice *advice;
};

static double time_null_calls(void *unused, size_t operations)
{
    (void)unused;
    double begin = cpu_ns();
    for (size_t i = 0; i < operations; i++)
        syscall(SYS_getppid);
    return since(begin);
}

static void write_pages(const struct call *call)
{
    for (size_t i = 0; i < call->count; i++)
        *(volatile char *)(call->pages + i * PAGE) = 1;
}

static double time_protection(void *argument, size_t operations)
{
    const struct call *call = argument;
    double sum = 0;
    for (size_t i = 0; i < operations; i++) {
        double begin = cpu_ns();
        mprotect(call->pages, call->count * PAGE, PROT_READ);
        sum += since(begin);
        mprotect(call->pages, call->count * PAGE, PROT_READ | PROT_WRITE);
        write_pages(call);
    }
    return sum;
}

static double time_advice(void *argument, size_t operations)
{
    const struct call *call = argument;
    double sum = 0;
    for (size_t i = 0; i < operations; i++) {
        write_pages(call);
        if (call->advice->advice == MADV_POPULATE_WRITE)
            madvise(call->pages, call->count * PAGE, MADV_DONTNEED);
        double begin = cpu_ns();
        int status = madvise(call->pages, call->count * PAGE, call->advice->advice);
        sum += since(begin);
        if (status != 0)
            return -1;
        if (call->advice->advice == MADV_GUARD_INSTALL)
            madvise(call->pages, call->count * PAGE, MADV_GUARD_REMOVE);
    }
    return sum;
}

/* The first writes after the contents were given back: the kernel clears each page. */
static double time_faults(void *argument, size_t operations)
{
    const struct call *call = argument;
    double sum = 0;
    for (size_t i = 0; i < operations; i++) {
        madvise(call->pages, call->count * PAGE, MADV_DONTNEED);
        double begin = cpu_ns();
        write_pages(call);
        sum += since(begin);
    }
    return sum;
}

static size_t operations_of(size_t count)
{
    return count >= 1000 ? 1 : 100 / count;
}

void measure_calls(struct json *json)
{
    static const struct advice advices[] = {
        {"MADV_DONTNEED", MADV_DONTNEED},
        {"MADV_FREE", MADV_FREE},
        {"MADV_COLD", MADV_COLD},
        {"MADV_GUARD_INSTALL", MADV_GUARD_INSTALL},
        {"MADV_POPULATE_WRITE", MADV_POPULATE_WRITE},
    };
    struct call call = {.pages = make_pages(MOST_PAGES)};
    say(json, (struct subject){"null system call", NULL, 0},
        time_batches(time_null_calls, NULL, 1000, BATCHES));
    for (int i = 0; i < COUNTS; i++) {
        call.count = page_counts[i];
        size_t operations = operations_of(call.count);
        say(json, (struct subject){"mprotect", NULL, call.count},
            time_batches(time_protection, &call, operations, BATCHES));
        for (size_t a = 0; a < sizeof advices / sizeof *advices; a++) {
            call.advice = &advices[a];
            say(json, (struct subject){advices[a].name, NULL, call.count},
                time_batches(time_advice, &call, operations, BATCHES));
        }
        say(json, (struct subject){"first write after MADV_DONTNEED", NULL, call.count},
            time_batches(time_faults, &call, operations, BATCHES));
    }
    drop_pages(call.pages, MOST_PAGES);
}
