/* SPDX-License-Identifier: MIT
 *
 * bench_simulators.c: how many million references a second each simulator takes, on one core.
 *
 *   bench_simulators [--count=N] [--rounds=N] [--only=TEXT] TRACE [-- COMMAND...]
 *
 * TRACE is read into memory first (N references, 60 million unless told). TEXT: only those whose
 * names hold it. Every simulator then
 * runs over it once a round, one after the other, and the median of the rounds is printed. With a
 * COMMAND the rate of cachegrind's own simulation is measured in the same rounds: its references
 * over the processor time that --cache-sim=yes costs beyond --cache-sim=no.
 *
 * Beside the simulators stand two that work in the obvious order, one reference through all
 * levels before the next: what the batches of caches.c gain can be seen against them.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analysis/simulate/reference_source.h"
#include "analysis/simulate/simulators/caches.h"
#include "analysis/simulate/simulators/dispatch.h"
#include "analysis/simulate/simulators/pages.h"
#include "analysis/simulate/simulators/shapes.h"
#include "trace/base/number.h"

enum { FEED = 1 << 14, ROUNDS_MOST = 101 };

struct input {
    struct reference *reference;
    size_t count;
};

static void __attribute__((noreturn)) fail(const char *what)
{
    fprintf(stderr, "bench_simulators: %s\n", what);
    exit(1);
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void feed_all(const struct input *input, bool (*feed)(void *, const struct references *),
                     void *simulator)
{
    for (size_t start = 0; start < input->count; start += FEED) {
        size_t left = input->count - start;
        struct references batch = {left < FEED ? left : FEED, input->reference + start, NULL, NULL};
        if (!feed(simulator, &batch))
            fail("the references cannot be simulated");
    }
}

static bool feed_pages(void *pages, const struct references *references)
{
    return pages_feed(pages, references);
}

static bool feed_caches(void *caches, const struct references *references)
{
    return caches_feed(caches, references);
}

static bool feed_shape(void *cache, const struct references *references)
{
    return shape_cache_feed(cache, references);
}

static double run_pages(const struct input *input, unsigned page_bytes)
{
    struct pages_options options = {page_bytes, false};
    struct pages *pages = pages_new(&options);
    double start = processor_seconds();
    feed_all(input, feed_pages, pages);
    double seconds = processor_seconds() - start;
    pages_free(pages);
    return seconds;
}

static double run_caches(const struct input *input, unsigned block, unsigned ways, bool everything,
                         unsigned fewest_sets_log2)
{
    struct caches_options options = {block, ways, everything, UINT32_MAX, fewest_sets_log2};
    struct caches *caches = caches_new(&options);
    double start = processor_seconds();
    feed_all(input, feed_caches, caches);
    double seconds = processor_seconds() - start;
    caches_free(caches);
    return seconds;
}

static double run_shape(const struct input *input, unsigned block, unsigned sets, unsigned ways)
{
    struct shape shape = {"", block, sets, ways};
    struct shape_cache *cache = shape_cache_new(&shape, false);
    double start = processor_seconds();
    feed_all(input, feed_shape, cache);
    double seconds = processor_seconds() - start;
    shape_cache_free(cache);
    return seconds;
}

/* One block through all levels, as far as it misses in the direct-mapped cache. */
static unsigned touch_direct_mapped(uint64_t *const *tags, uint64_t block, uint64_t *misses)
{
    unsigned level = 0;
    for (; level < CACHES_LEVELS; level++) {
        uint64_t *tag = &tags[level][block & ((32ULL << level) - 1)];
        if (*tag == block)
            break;
        *tag = block;
        misses[level]++;
    }
    return level;
}

/* Like touch_direct_mapped(), but with sets of several ways: one block through all levels, as far
 * as it is not in front of its set. */
static void touch_associative(uint64_t *const *tags, uint64_t block, uint64_t ways,
                              uint64_t (*depths)[CACHES_LARGEST_WAYS + 1])
{
    for (unsigned level = 0; level < CACHES_LEVELS; level++) {
        uint64_t *set = &tags[level][(block & ((32ULL << level) - 1)) * ways];
        if (set[0] == block)
            return;
        uint64_t depth = 1;
        while (depth < ways && set[depth] != block)
            depth++;
        depths[level][depth]++;
        memmove(set + 1, set, (depth < ways ? depth : ways - 1) * sizeof *set);
        set[0] = block;
    }
}

static double run_one_by_one(const struct input *input, unsigned block_bytes, unsigned ways)
{
    unsigned shift = (unsigned)__builtin_ctz(block_bytes);
    uint64_t *tags[CACHES_LEVELS];
    uint64_t misses[CACHES_LEVELS] = {0};
    uint64_t depths[CACHES_LEVELS][CACHES_LARGEST_WAYS + 1] = {0};
    for (unsigned level = 0; level < CACHES_LEVELS; level++)
        tags[level] = calloc((32ULL << level) * ways, sizeof *tags[level]);
    double start = processor_seconds();
    for (size_t i = 0; i < input->count; i++) {
        const struct reference *reference = &input->reference[i];
        uint64_t last = (reference->address + reference->size - 1) >> shift;
        for (uint64_t block = reference->address >> shift; block <= last; block++) {
            if (ways == 1)
                touch_direct_mapped(tags, block, misses);
            else
                touch_associative(tags, block, ways, depths);
        }
    }
    double seconds = processor_seconds() - start;
    __asm__ volatile("" : : "r"(misses), "r"(depths) : "memory");
    for (unsigned level = 0; level < CACHES_LEVELS; level++)
        free(tags[level]);
    return seconds;
}

enum kind { PAGES, CACHES_MISSES, CACHES_ALL, TLBS, ONE_BY_ONE, SHAPE };

static const struct bench {
    const char *name;
    enum kind kind;
    unsigned unit; /* bytes of a page or block */
    unsigned ways;
    bool has_vectors;
} benches[] = {
    {"pages of 4 KiB, by class", PAGES, 4096, 0, true},
    {"pages of 8 KiB, by class", PAGES, 8192, 0, true},
    {"LRU stack over blocks of 32 B", PAGES, 32, 0, true},
    {"LRU stack over blocks of 64 B", PAGES, 64, 0, true},
    {"direct-mapped, 32 B, misses only", CACHES_MISSES, 32, 1, true},
    {"direct-mapped, 32 B, everything", CACHES_ALL, 32, 1, true},
    {"1-8 ways, 64 B, misses only", CACHES_MISSES, 64, 8, true},
    {"1-8 ways, 64 B, everything", CACHES_ALL, 64, 8, true},
    {"1-16 ways, 64 B, misses only", CACHES_MISSES, 64, 16, true},
    {"1-16 ways, 64 B, everything", CACHES_ALL, 64, 16, true},
    {"TLBs of 1-4 ways, 4 KiB", TLBS, 4096, 4, true},
    {"TLBs of 1-16 ways, 4 KiB", TLBS, 4096, 16, true},
    {"TLBs of 1-4 ways, 2 MiB", TLBS, 2 << 20, 4, true},
    {"one by one: direct-mapped, 32 B", ONE_BY_ONE, 32, 1, false},
    {"one by one: 1-8 ways, 64 B", ONE_BY_ONE, 64, 8, false},
    {"one by one: 1-16 ways, 64 B", ONE_BY_ONE, 64, 16, false},
    {"one shape of 64 sets, 12 ways", SHAPE, 64, 12, false},
};
enum { BENCHES = sizeof benches / sizeof *benches };

static double run(const struct bench *bench, const struct input *input)
{
    switch (bench->kind) {
    case PAGES:
        return run_pages(input, bench->unit);
    case ONE_BY_ONE:
        return run_one_by_one(input, bench->unit, bench->ways);
    case SHAPE:
        return run_shape(input, bench->unit, 64, bench->ways);
    case TLBS:
        return run_caches(input, bench->unit, bench->ways, true, TLBS_FEWEST_SETS_LOG2);
    default:
        return run_caches(input, bench->unit, bench->ways, bench->kind == CACHES_ALL,
                          CACHES_FEWEST_SETS_LOG2);
    }
}

/* Millions of references a second. */
static double rate_of(const struct bench *bench, const struct input *input)
{
    return (double)input->count / run(bench, input) / 1e6;
}

/* Runs a command under cachegrind. Returns the processor time; *references, unless NULL, is the
 * number of data references that it counted. */
static double run_cachegrind(char **command, int words, bool simulate, double *references)
{
    char log[] = "/tmp/bench_simulators.XXXXXX";
    int file = mkstemp(log);
    if (file < 0)
        fail("no temporary file can be made");
    char log_option[64];
    snprintf(log_option, sizeof log_option, "--log-file=%s", log);
    char **line = calloc((size_t)words + 6, sizeof *line);
    line[0] = "valgrind";
    line[1] = "--tool=cachegrind";
    line[2] = simulate ? "--cache-sim=yes" : "--cache-sim=no";
    line[3] = "--cachegrind-out-file=/dev/null";
    line[4] = log_option;
    memcpy(line + 5, command, (size_t)words * sizeof *line);
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout))
            execvp(line[0], line);
        _exit(127);
    }
    struct rusage usage;
    int status;
    if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status != 0)
        fail("the command does not succeed under valgrind --tool=cachegrind");
    FILE *text = fdopen(file, "r");
    char *found, row[256];
    while (fgets(row, sizeof row, text))
        if (references && (found = strstr(row, "D   refs:")) != NULL) {
            *references = 0;
            for (char *digit = found + 9; *digit != '('; digit++)
                if (*digit >= '0' && *digit <= '9')
                    *references = *references * 10 + (*digit - '0');
        }
    fclose(text);
    unlink(log);
    free(line);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static struct input read_input(const char *path, size_t most)
{
    const char *error;
    struct reference_source *source = reference_source_open(path, &error);
    if (!source)
        fail(error);
    struct input input = {.reference = malloc(most * sizeof *input.reference)};
    if (!input.reference)
        fail("memory is short for so many references; choose a smaller --count");
    size_t got;
    for (;;) {
        struct reference_room room = {most - input.count, input.reference + input.count, NULL,
                                      NULL};
        if (input.count == most || (got = reference_source_next(source, &room)) == 0)
            break;
        input.count += got;
    }
    if (reference_source_error(source))
        fail(reference_source_error(source));
    if (input.count == 0)
        fail("the trace holds no references");
    reference_source_close(source);
    return input;
}

static uint64_t number(const char *text)
{
    uint64_t value;
    if (!number_parse(text, 1, UINT64_MAX, &value))
        fail("--count and --rounds take a number from 1 on");
    return value;
}

/* What was measured. */
struct results {
    unsigned rounds;
    double rates[2][BENCHES][ROUNDS_MOST]; /* without vector instructions, and with them */
    double cachegrind[ROUNDS_MOST];
};

struct bench_options {
    size_t most; /* references */
    unsigned rounds;
    const char *only;
    const char *trace;
    char **command;
    int words; /* of the command; 0: none */
};

static struct bench_options read_options(int argc, char **argv)
{
    static const char usage[] =
        "usage: bench_simulators [--count=N] [--rounds=N] [--only=TEXT] TRACE [-- COMMAND...]";
    static const struct option names[] = {{"count", required_argument, NULL, 'c'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"only", required_argument, NULL, 'o'},
                                          {NULL, 0, NULL, 0}};
    struct bench_options options = {.most = 60000000, .rounds = 3, .only = ""};
    for (int option; (option = getopt_long(argc, argv, "+", names, NULL)) != -1;) {
        if (option == '?')
            fail(usage);
        if (option == 'c')
            options.most = number(optarg);
        else if (option == 'o')
            options.only = optarg;
        else
            options.rounds = (unsigned)number(optarg);
    }
    if (optind == argc || options.rounds > ROUNDS_MOST)
        fail(usage);
    options.trace = argv[optind];
    options.command = argv + optind + 1;
    if (*options.command && strcmp(*options.command, "--") == 0)
        options.command++;
    options.words = (int)(argv + argc - options.command);
    return options;
}

static void measure_round(const struct bench_options *options, const struct input *input,
                          struct results *results)
{
    unsigned round = results->rounds++;
    for (unsigned vectors = 0; vectors < 2; vectors++) {
        dispatch_allow_avx512(vectors);
        for (unsigned i = 0; i < BENCHES; i++)
            if (strstr(benches[i].name, options->only) && (vectors || benches[i].has_vectors))
                results->rates[vectors][i][round] = rate_of(&benches[i], input);
    }
    if (options->words > 0) {
        double references = 0;
        double with = run_cachegrind(options->command, options->words, true, &references);
        double without = run_cachegrind(options->command, options->words, false, NULL);
        results->cachegrind[round] = references / (with - without) / 1e6;
    }
}

static void print_rate(const char *name, double rate, double cachegrind)
{
    printf("%-48s %8.1f", name, rate);
    if (cachegrind > 0)
        printf(" %9.2f", rate / cachegrind);
    printf("\n");
}

static void print_results(const struct bench_options *options, const struct input *input,
                          struct results *results)
{
    unsigned rounds = results->rounds;
    double cachegrind = options->words > 0 ? median(results->cachegrind, rounds) : 0;
    printf("%zu references, median of %u rounds, one core, M references/s%s\n", input->count,
           rounds, options->words > 0 ? " and multiples of cachegrind" : "");
    if (options->words > 0)
        print_rate("cachegrind's own simulation, one configuration", cachegrind, cachegrind);
    for (unsigned i = 0; i < BENCHES; i++) {
        char name[64];
        if (!strstr(benches[i].name, options->only))
            continue;
        print_rate(benches[i].name, median(results->rates[1][i], rounds), cachegrind);
        snprintf(name, sizeof name, "%s, no vectors", benches[i].name);
        if (benches[i].has_vectors)
            print_rate(name, median(results->rates[0][i], rounds), cachegrind);
    }
}

int main(int argc, char **argv)
{
    static struct results results;
    struct bench_options options = read_options(argc, argv);
    struct input input = read_input(options.trace, options.most);
    while (results.rounds < options.rounds)
        measure_round(&options, &input, &results);
    print_results(&options, &input, &results);
    free(input.reference);
    return 0;
}
