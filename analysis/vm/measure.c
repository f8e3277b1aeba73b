/* SPDX-License-Identifier: MIT
 *
 * measure.c: see measure.h.
 */
#include "analysis/vm/measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

_Noreturn void give_up(const char *what)
{
    dprintf(STDERR_FILENO, "allotrope-vm: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static void open_figure(struct json *json, struct subject subject)
{
    json_new_line(json);
    json_open(json, NULL);
    json_text(json, "what", subject.what);
    json_text(json, "by", subject.by);
    if (subject.count)
        json_number(json, "count", subject.count);
    else
        json_null(json, "count");
}

void say(struct json *json, struct subject subject, double ns)
{
    if (ns < 0) {
        say_none(json, subject, "the kernel refuses");
        return;
    }
    open_figure(json, subject);
    json_real(json, "ns", ns);
    json_close(json);
}

void say_none(struct json *json, struct subject subject, const char *why)
{
    open_figure(json, subject);
    json_null(json, "ns");
    json_text(json, "why", why);
    json_close(json);
}

static double clock_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

double now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

double cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static double cost_of_asking(void)
{
    enum { TRIES = 1001 };
    double costs[TRIES];
    for (int i = 0; i < TRIES; i++) {
        double begin = cpu_ns();
        costs[i] = cpu_ns() - begin;
    }
    return median(costs, TRIES);
}

double since(double begin)
{
    static double cost = -1;
    double end = cpu_ns();
    if (cost < 0)
        cost = cost_of_asking();
    return end - begin > cost ? end - begin - cost : 0;
}

double time_batches(batch *run, void *argument, size_t operations, size_t batches)
{
    enum { MOST_BATCHES = 200 };
    double times[MOST_BATCHES] = {0};
    if (batches > MOST_BATCHES)
        batches = MOST_BATCHES;
    for (size_t i = 0; i < batches; i++) {
        times[i] = run(argument, operations) / (double)operations;
        if (times[i] < 0)
            return -1;
    }
    return median(times, batches);
}

char *make_pages(size_t count)
{
    char *pages =
        mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        give_up("mmap");
    madvise(pages, count * PAGE, MADV_NOHUGEPAGE);
    memset(pages, 1, count * PAGE);
    return pages;
}

void drop_pages(char *pages, size_t count)
{
    munmap(pages, count * PAGE);
}

void shuffle(uint32_t *order, size_t count)
{
    uint64_t random = 1991;
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        size_t other = (size_t)(random >> 33) % i;
        uint32_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}
