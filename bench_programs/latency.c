/* SPDX-License-Identifier: MIT
 *
 * latency.c: how long single calls of malloc and free take, the rare long ones above all.
 *
 * A mean hides the call that gives memory back to the kernel, or goes through a list. Here every
 * call is timed by itself, and the percentiles are printed. The set of live blocks swings between
 * `blocks` and a tenth of it: while it grows five calls of eight allocate, while it shrinks three,
 * and what is freed is chosen at random. Sizes are drawn from what gawk asks for; one block in
 * `rare` has 64 KiB to 4 MiB, of which each page is written.
 *
 *     |  malloc or free  | write, draw the next |  malloc or free  |
 *     begin             end                   begin               end
 *        interval: a call       gap: not timed
 *
 * Time is the processor's counter. A call that the scheduler interrupted tells nothing of the
 * allocator: where an interval or a gap is long, the thread's context switches are read, and an
 * interval in which there was one is counted apart. What a hypervisor takes cannot be told:
 * alone=1 does all but the calls, and shows it.
 *
 * Idea: latency percentiles, as Hdr Histogram (G. Tene) keeps them: each power of two is divided
 * into equal buckets.
 */
#include "bench_programs/recorded_sizes.h"

#include <stdbool.h>
#include <sys/resource.h>
#include <time.h>
#include <x86intrin.h>

enum {
    SUB_BITS = 5, /* a power of two is divided into 32, so a bucket is within 3% */
    BUCKETS = (64 - SUB_BITS + 1) << SUB_BITS,
    LONG_TICKS = 10000, /* some 3 to 5 us */
    PAGE = 4096,
};

struct histogram {
    uint64_t counts[BUCKETS], total, longest, interrupted;
};

struct timing {
    struct histogram malloc, free;
    uint64_t ended;    /* the last interval */
    uint64_t switches; /* of the thread, when they were last read */
};

static uint64_t operations = 10000000, blocks = 200000, rare = 10000, alone = 0, timed = 0;
static struct timing timing;

static size_t bucket_of(uint64_t ticks)
{
    if (ticks < (uint64_t)1 << SUB_BITS)
        return ticks;
    unsigned shift = 63 - (unsigned)__builtin_clzll(ticks) - SUB_BITS;
    return (((size_t)shift + 1) << SUB_BITS) + (ticks >> shift) - ((size_t)1 << SUB_BITS);
}

/* The greatest number of ticks that falls into it. */
static uint64_t bucket_end(size_t bucket)
{
    if (bucket < (size_t)1 << SUB_BITS)
        return bucket;
    size_t shift = (bucket >> SUB_BITS) - 1;
    uint64_t first = (bucket & ((1 << SUB_BITS) - 1)) + (1 << SUB_BITS);
    return ((first + 1) << shift) - 1;
}

/* Whether the thread was off its processor since this was last asked. */
static bool was_switched(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    uint64_t before = timing.switches;
    timing.switches = (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
    return timing.switches != before;
}

static inline uint64_t begin_interval(void)
{
    if (__rdtsc() - timing.ended > LONG_TICKS)
        was_switched();
    _mm_lfence();
    uint64_t ticks = __rdtsc();
    _mm_lfence();
    return ticks;
}

static inline void end_interval(struct histogram *histogram, uint64_t begun)
{
    unsigned processor;
    timing.ended = __rdtscp(&processor);
    _mm_lfence();
    uint64_t ticks = timing.ended - begun;
    if (ticks > LONG_TICKS && was_switched()) {
        histogram->interrupted++;
        return;
    }
    histogram->counts[bucket_of(ticks)]++;
    histogram->total++;
    if (ticks > histogram->longest)
        histogram->longest = ticks;
}

/* The ticks that a share of the calls does not exceed. */
static uint64_t percentile(const struct histogram *histogram, double share)
{
    uint64_t passed = 0, wanted = (uint64_t)(share * (double)histogram->total);
    for (size_t i = 0; i < BUCKETS; i++) {
        passed += histogram->counts[i];
        if (passed > wanted)
            return bucket_end(i) < histogram->longest ? bucket_end(i) : histogram->longest;
    }
    return histogram->longest;
}

static uint64_t longer_than(const struct histogram *histogram, double ticks)
{
    uint64_t count = 0;
    for (size_t i = bucket_of((uint64_t)ticks) + 1; i < BUCKETS; i++)
        count += histogram->counts[i];
    return count;
}

static void print_histogram(const char *name, const struct histogram *histogram, double ns)
{
    static const double shares[] = {.5, .99, .999, .99999};
    printf("%-7s", name);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        printf("%7g%% %7.0f ns", 100 * shares[i], (double)percentile(histogram, shares[i]) * ns);
    printf("  longest %.1f us, %" PRIu64 " above 100 us; %" PRIu64 " calls, %" PRIu64
           " interrupted\n",
           (double)histogram->longest * ns / 1000, longer_than(histogram, 100000 / ns),
           histogram->total, histogram->interrupted);
}

static size_t draw_size(uint64_t *random)
{
    if (random_below(random, rare) == 0)
        return (size_t)random_between(random, 1 << 16, 1 << 22);
    return size_sample[random_below(random, SIZE_SAMPLE)];
}

struct live {
    unsigned char *block;
    size_t bytes;
};

static unsigned char nothing[1 << 22]; /* what alone=1 writes to */

static void make(struct live *live, uint64_t *random)
{
    live->bytes = draw_size(random);
    uint64_t begun = begin_interval();
    live->block = alone ? nothing : malloc(live->bytes);
    end_interval(&timing.malloc, begun);
    if (!live->block)
        bench_no_memory(live->bytes);
    for (size_t i = 0; i < live->bytes; i += PAGE)
        live->block[i] = (unsigned char)live->bytes;
}

static uint64_t end(const struct live *live)
{
    uint64_t checksum = live->bytes;
    if (!alone && *live->block != (unsigned char)live->bytes)
        bench_corrupt("a block has lost its contents", live->block);
    uint64_t begun = begin_interval();
    if (!alone)
        free(live->block);
    end_interval(&timing.free, begun);
    return checksum;
}

static uint64_t run(void)
{
    uint64_t random = 1, checksum = 0, count = 0;
    struct live *set = allocate(blocks * sizeof *set);
    bool grows = true;
    for (uint64_t i = 0; i < operations; i++) {
        if (count == 0 || (count < blocks && random_below(&random, 8) < (grows ? 5 : 3))) {
            make(&set[count++], &random);
        } else {
            struct live *chosen = &set[random_below(&random, count)];
            checksum = mix(checksum + end(chosen));
            *chosen = set[--count];
        }
        grows = grows ? count < blocks : count <= blocks / 10;
    }
    while (count > 0)
        checksum = mix(checksum + end(&set[--count]));
    free(set);
    return checksum;
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

int main(int argc, char **argv)
{
    static const struct bench_option options[] = {
        {"operations", "calls of malloc and free", 1, 1000000000000, &operations},
        {"blocks", "live blocks at most", 10, 100000000, &blocks},
        {"rare", "one block in so many is large", 1, 1000000000, &rare},
        {"alone", "1: everything but the calls", 0, 1, &alone},
        {"timed", "1: print percentiles", 0, 1, &timed},
        {0}};
    bench_arguments(argc, argv, "how long single calls of malloc and free take", options);
    fill_size_sample();
    uint64_t ns = now_ns(), ticks = __rdtsc();
    was_switched();
    uint64_t checksum = run();
    if (timed) {
        double ns_per_tick = (double)(now_ns() - ns) / (double)(__rdtsc() - ticks);
        print_histogram("malloc", &timing.malloc, ns_per_tick);
        print_histogram("free", &timing.free, ns_per_tick);
    }
    print_checksum(checksum);
    return 0;
}
