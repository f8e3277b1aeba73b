/* SPDX-License-Identifier: MIT */
/* simulate_main.c: allotrope-simulate, the program behind `allotrope simulate`.
 *
 *   allotrope-simulate pages  [options] TRACE      page faults for every memory size
 *   allotrope-simulate caches [options] TRACE      misses for every cache size and associativity
 *
 * It reads references once, hands them to all simulators at the same time, and prints one JSON
 * object (docs/simulate-format.md). What is asked of it, and what is wrong with it, is settled
 * before anything is read.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/simulate_caches.h"
#include "analysis/simulate_options.h"
#include "analysis/simulate_pages.h"

static const char usage[] =
    "Usage: allotrope-simulate pages [OPTION]... TRACE\n"
    "       allotrope-simulate caches [OPTION]... TRACE\n"
    "Simulates the data references of TRACE (of `allotrope record`, or lackey's text; - for\n"
    "standard input) and prints JSON.\n\n"
    "Both:\n"
    "  --count=N             the first N references only\n"
    "  --threads=N           default: the processors online\n"
    "  --error-over=N        compare a sample with the exact result over the first N references\n"
    "                        (default 100000000)\n"
    "Pages:\n"
    "  --page-size=LIST      in bytes, powers of two from 64 on (default 4096,8192)\n"
    "  --sample              follow 8192 to 17536 pages, if there are more\n"
    "Caches:\n"
    "  --block=LIST          in bytes, powers of two from 32 to 4096 (default 32,64)\n"
    "  --ways=N              the largest associativity, 1 to 16 (default 16)\n"
    "  --sample=N            N of 32 slices of the sets, 1 to 31\n"
    "  --no-causes           do not tell misses into cold, capacity and conflict: faster\n"
    "  --shape=SHAPE         also this one, in detail: a name, or BLOCK:SETS:WAYS; repeatable\n"
    "  --straddles-once      a straddling reference misses once in a --shape, as cachegrind "
    "counts\n";

/* Ends the program with one line about what is wrong with the command. */
static void __attribute__((noreturn, format(printf, 1, 2))) refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("allotrope-simulate: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

static uint64_t number(const char *option, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || text[0] == '-' || value < least ||
        value > most)
        refuse("--%s: \"%s\" is not a number from %" PRIu64 " to %" PRIu64, option, text, least,
               most);
    return value;
}

/* A list of powers of two, separated by commas, into `sizes`. Returns its length. */
static size_t size_list(const char *option, char *text, uint64_t least, uint64_t most,
                        uint64_t *sizes)
{
    size_t count = 0;
    for (char *rest = text, *item; (item = strsep(&rest, ",")) != NULL;) {
        if (count == SIMULATE_SIZES)
            refuse("--%s: more than %d sizes; run several times", option, SIMULATE_SIZES);
        uint64_t size = number(option, item, least, most);
        if ((size & (size - 1)) != 0)
            refuse("--%s: %" PRIu64 " is no power of two", option, size);
        for (size_t i = 0; i < count; i++)
            if (sizes[i] == size)
                refuse("--%s: %" PRIu64 " is given twice", option, size);
        sizes[count++] = size;
    }
    return count;
}

static void refuse_shape(const char *text)
{
    char names[512] = "";
    for (const struct shape *shape = shapes_named; shape->name != NULL; shape++)
        snprintf(names + strlen(names), sizeof names - strlen(names), " %s", shape->name);
    refuse("--shape: \"%s\" is neither BLOCK:SETS:WAYS (block a power of two from 32 to 4096, sets "
           "1 to 4194304, ways 1 to 1024) nor one of:%s",
           text, names);
}

static struct shape shape_of(const char *text)
{
    for (const struct shape *shape = shapes_named; shape->name != NULL; shape++)
        if (strcmp(shape->name, text) == 0)
            return *shape;
    struct shape shape = {.name = text};
    int length = -1;
    sscanf(text, "%u:%" SCNu64 ":%u%n", &shape.block_bytes, &shape.sets, &shape.ways, &length);
    if (length < 0 || text[length] != '\0' || strchr(text, '-') != NULL || shape.block_bytes < 32 ||
        shape.block_bytes > 4096 || (shape.block_bytes & (shape.block_bytes - 1)) != 0 ||
        shape.sets < 1 || shape.sets > 1 << 22 || shape.ways < 1 || shape.ways > 1024)
        refuse_shape(text);
    return shape;
}

static struct simulate_options defaults(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return (struct simulate_options){
        .count = UINT64_MAX,
        .threads = online > 0 ? (unsigned)online : 1,
        .error_over = 100000000,
        .sizes = {0},
        .ways = 16,
        .causes = true,
    };
}

enum {
    COUNT = 256,
    THREADS,
    ERROR_OVER,
    PAGE_SIZE,
    SAMPLE,
    BLOCK,
    WAYS,
    NO_CAUSES,
    SHAPE,
    STRADDLES_ONCE,
    HELP
};

static const struct option page_options[] = {
    {"count", required_argument, NULL, COUNT},
    {"threads", required_argument, NULL, THREADS},
    {"error-over", required_argument, NULL, ERROR_OVER},
    {"page-size", required_argument, NULL, PAGE_SIZE},
    {"sample", no_argument, NULL, SAMPLE},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static const struct option cache_options[] = {
    {"count", required_argument, NULL, COUNT},
    {"threads", required_argument, NULL, THREADS},
    {"error-over", required_argument, NULL, ERROR_OVER},
    {"block", required_argument, NULL, BLOCK},
    {"ways", required_argument, NULL, WAYS},
    {"sample", required_argument, NULL, SAMPLE},
    {"no-causes", no_argument, NULL, NO_CAUSES},
    {"shape", required_argument, NULL, SHAPE},
    {"straddles-once", no_argument, NULL, STRADDLES_ONCE},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static void take_option(struct simulate_options *options, int option, char *value)
{
    switch (option) {
    case COUNT:
        options->count = number("count", value, 1, UINT64_MAX);
        break;
    case THREADS:
        options->threads = (unsigned)number("threads", value, 1, 1024);
        break;
    case ERROR_OVER:
        options->error_over = number("error-over", value, 1, UINT64_MAX);
        break;
    case PAGE_SIZE:
        options->size_count = size_list("page-size", value, 64, 1 << 30, options->sizes);
        break;
    case BLOCK:
        options->size_count = size_list("block", value, 32, 4096, options->sizes);
        break;
    case WAYS:
        options->ways = (unsigned)number("ways", value, 1, CACHES_LARGEST_WAYS);
        break;
    case SAMPLE:
        options->sampled = true;
        if (value != NULL)
            options->slices = (unsigned)number("sample", value, 1, CACHES_SLICES - 1);
        break;
    case NO_CAUSES:
        options->causes = false;
        break;
    case SHAPE:
        if (options->shape_count == SIMULATE_SHAPES)
            refuse("--shape: more than %d shapes; run several times", SIMULATE_SHAPES);
        options->shapes[options->shape_count++] = shape_of(value);
        break;
    case STRADDLES_ONCE:
        options->straddles_once = true;
        break;
    case HELP:
        fputs(usage, stdout);
        exit(0);
    default:
        refuse("see allotrope-simulate --help");
    }
}

static struct simulate_options read_options(int argc, char **argv, bool pages)
{
    struct simulate_options options = defaults();
    int option;
    while ((option = getopt_long(argc, argv, "", pages ? page_options : cache_options, NULL)) != -1)
        take_option(&options, option, optarg);
    if (optind + 1 != argc)
        refuse(optind == argc ? "no trace is named; - stands for standard input"
                              : "more than one trace is named; simulate them one by one");
    options.path = argv[optind];
    if (options.size_count == 0) {
        options.size_count = 2;
        options.sizes[0] = pages ? 4096 : 32;
        options.sizes[1] = pages ? 8192 : 64;
    }
    return options;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    bool pages = argc > 1 && strcmp(argv[1], "pages") == 0;
    if (argc < 2 || (!pages && strcmp(argv[1], "caches") != 0))
        refuse("the first word is pages or caches; see allotrope-simulate --help");
    argv[1] = argv[0];
    struct simulate_options options = read_options(argc - 1, argv + 1, pages);

    const char *error;
    struct reference_source *source = reference_source_open(options.path, &error);
    if (source == NULL)
        refuse("%s", error);
    error = pages ? simulate_pages(source, &options, stdout)
                  : simulate_caches(source, &options, stdout);
    int status = 0;
    if (error != NULL) {
        fprintf(stderr, "allotrope-simulate: %s\n", error);
        status = 1;
    } else if (reference_source_error(source) != NULL) {
        fprintf(stderr, "allotrope-simulate: %s: %s; the result is of what came before\n",
                options.path, reference_source_error(source));
        status = 1;
    } else if (fflush(stdout) != 0) {
        fprintf(stderr, "allotrope-simulate: the result cannot be written: %s\n", strerror(errno));
        status = 1;
    }
    reference_source_close(source);
    return status;
}
