/* SPDX-License-Identifier: MIT
 *
 * traps.c: the benchmark of Appel and Li (1991, section 4, Table 1), as they describe it.
 *
 *   add                   an instruction of a loop of 18 adds, a compare and a branch
 *   trap                  a write to a protected page, and a handler that changes no protection
 *   trap+prot1+unprot     100 times: access a random protected page; the handler protects some
 * other page and unprotects this one trap+protN+unprot     protect 100 pages, access each in random
 * order; the handler unprotects it map2                  whether one page can be mapped at two
 * addresses
 *
 * Pages are protected against writing, as a collector's write barrier needs it. The adds depend on
 * each other, since a processor of today does several at once otherwise; so the loop's other two
 * instructions take no time, and the time is divided by 18. They add registers: adds of a constant
 * some processors fold into one.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "analysis/vm/measure.h"

enum { PAGES = 100, ADDS = 18, BATCHES = 50 };

static char *pages;
static uint32_t order[PAGES];
static volatile size_t unprotected;
static volatile bool protects_another;

static double time_adds(void *unused, size_t operations)
{
    (void)unused;
    uint64_t sum = 0, sum_of = 3, count = operations / ADDS;
    double begin = cpu_ns();
    __asm__ volatile("1:\n\t"
                     ".rept 18\n\t"
                     "add %2, %0\n\t"
                     ".endr\n\t"
                     "sub $1, %1\n\t"
                     "jnz 1b"
                     : "+r"(sum), "+r"(count)
                     : "r"(sum_of)
                     : "cc");
    return since(begin);
}

/* "movb $1, (%rax)" is three bytes long. */
static void step_over(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 3;
}

static void unprotect(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    size_t page = (size_t)((char *)info->si_addr - pages) / PAGE;
    if (protects_another)
        mprotect(pages + unprotected * PAGE, PAGE, PROT_READ);
    mprotect(pages + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
    unprotected = page;
}

static void handle(void (*handler)(int, siginfo_t *, void *), struct sigaction *before)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, before);
}

static double time_traps(void *unused, size_t operations)
{
    (void)unused;
    mprotect(pages, PAGE, PROT_READ);
    double begin = cpu_ns();
    for (size_t i = 0; i < operations; i++)
        __asm__ volatile("movb $1, (%0)" : : "a"(pages) : "memory");
    double took = since(begin);
    mprotect(pages, PAGE, PROT_READ | PROT_WRITE);
    return took;
}

static void write_in_random_order(void)
{
    for (size_t i = 0; i < PAGES; i++)
        *(volatile char *)(pages + order[i] * PAGE) = 2;
}

static double time_protect_one(void *unused, size_t operations)
{
    (void)unused;
    (void)operations;
    mprotect(pages, PAGES * PAGE, PROT_READ | PROT_WRITE);
    write_in_random_order();
    unprotected = order[PAGES - 1];
    for (size_t i = 0; i < PAGES; i++) /* one by one: neighbours are mappings of their own */
        mprotect(pages + i * PAGE, PAGE, i == unprotected ? PROT_READ | PROT_WRITE : PROT_READ);
    protects_another = true;
    double begin = cpu_ns();
    write_in_random_order();
    return since(begin);
}

static double time_protect_all(void *unused, size_t operations)
{
    (void)unused;
    (void)operations;
    protects_another = false;
    mprotect(pages, PAGES * PAGE, PROT_READ | PROT_WRITE);
    write_in_random_order();
    double begin = cpu_ns();
    mprotect(pages, PAGES * PAGE, PROT_READ);
    write_in_random_order();
    return since(begin);
}

/* A page at two addresses: the second mapping, and the first access through it. */
static void measure_map2(struct json *json)
{
    enum { COUNT = 100 };
    double maps[COUNT], faults[COUNT];
    int file = memfd_create("map2", 0);
    if (file < 0 || ftruncate(file, (off_t)PAGE) != 0) {
        say_none(json, (struct subject){"map2", NULL, 0}, "the kernel has no memfd");
        return;
    }
    volatile char *one = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (int i = 0; i < COUNT; i++) {
        one[0] = (char)i;
        double begin = cpu_ns();
        volatile char *other = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
        maps[i] = since(begin);
        double mapped = cpu_ns();
        if (other == MAP_FAILED || other[0] != (char)i)
            give_up("map2");
        faults[i] = since(mapped);
        munmap((void *)other, PAGE);
    }
    say(json, (struct subject){"map2", NULL, 0}, median(maps, COUNT));
    say(json, (struct subject){"map2 fault", NULL, 0}, median(faults, COUNT));
    munmap((void *)one, PAGE);
    close(file);
}

void measure_table(struct json *json)
{
    struct sigaction before;
    pages = make_pages(PAGES);
    shuffle(order, PAGES);
    say(json, (struct subject){"add", NULL, 0},
        time_batches(time_adds, NULL, (size_t)ADDS * 20000, BATCHES));
    handle(step_over, &before);
    say(json, (struct subject){"trap", NULL, 0}, time_batches(time_traps, NULL, 100, BATCHES));
    handle(unprotect, NULL);
    say(json, (struct subject){"trap+prot1+unprot", NULL, 0},
        time_batches(time_protect_one, NULL, PAGES, BATCHES));
    say(json, (struct subject){"trap+protN+unprot", NULL, 0},
        time_batches(time_protect_all, NULL, PAGES, BATCHES));
    sigaction(SIGSEGV, &before, NULL);
    measure_map2(json);
    drop_pages(pages, PAGES);
}
