/* SPDX-License-Identifier: MIT
 *
 * main.c: allotrope-simulate, the program behind `allotrope simulate` and `locality`.
 *
 *   allotrope-simulate pages    [options] TRACE            page faults for every memory size
 *   allotrope-simulate caches   [options] TRACE            misses for every cache size
 *   allotrope-simulate locality [options] -- COMMAND...    both, of a program that runs meanwhile
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

#include "analysis/simulate/simulate_caches.h"
#include "analysis/simulate/simulate_pages.h"

static const char usage[] =
    "Usage: allotrope-simulate pages [OPTION]... TRACE\n"
    "       allotrope-simulate caches [OPTION]... TRACE\n"
    "       allotrope-simulate locality [OPTION]... -- COMMAND...\n"
    "Simulates the data references of TRACE (of `allotrope record`, or lackey's text; - for\n"
    "standard input), or of COMMAND under the recorder, and prints JSON.\n\n"
    "All:\n"
    "  --output=FILE         where the JSON goes (default -, standard output)\n"
    "  --count=N             the first N references only; of a trace\n"
    "  --threads=N           default: the processors online\n"
    "  --error-over=N        compare a sample with the exact result over the first N references\n"
    "                        (default 100000000); of a trace\n"
    "Pages:\n"
    "  --page-size=LIST      in bytes, powers of two from 64 on (default 4096,8192; locality:\n"
    "                        4096)\n"
    "  --sample              follow 8192 to 17536 pages, if there are more; of a trace\n"
    "Caches:\n"
    "  --block=LIST          block sizes in bytes, powers of two from 32 to 4096, each with the\n"
    "                        largest associativity, 1 to 16, if not 16: BLOCK[:WAYS] (default\n"
    "                        32,64; locality: 32:1,64:8)\n"
    "  --sample=N            N of 32 slices of the sets, 1 to 31; of a trace\n"
    "  --no-causes           do not tell misses into cold, capacity and conflict: faster;\n"
    "                        locality does so only with --causes\n"
    "  --shape=SHAPE         also this one, in detail: a name, or BLOCK:SETS:WAYS; repeatable\n"
    "  --straddles-once      a straddling reference misses once in a --shape, as cachegrind "
    "counts\n"
    "Locality:\n"
    "  --tools=DIRECTORY     of the recorder (default trace/recorder)\n"
    "  --env=NAME=VALUE      set for COMMAND alone; repeatable\n";

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

static uint64_t power_of_two(const char *option, const char *text, uint64_t least, uint64_t most)
{
    uint64_t size = number(option, text, least, most);
    if ((size & (size - 1)) != 0)
        refuse("--%s: %" PRIu64 " is no power of two", option, size);
    return size;
}

static void take_page_sizes(struct simulate_options *options, char *text)
{
    options->page_size_count = 0;
    for (char *item; (item = strsep(&text, ",")) != NULL;) {
        if (options->page_size_count == SIMULATE_SIZES)
            refuse("--page-size: more than %d sizes; run several times", SIMULATE_SIZES);
        uint64_t size = power_of_two("page-size", item, 64, 1 << 30);
        for (size_t i = 0; i < options->page_size_count; i++)
            if (options->page_sizes[i] == size)
                refuse("--page-size: %" PRIu64 " is given twice", size);
        options->page_sizes[options->page_size_count++] = size;
    }
}

static void take_blocks(struct simulate_options *options, char *text)
{
    options->block_count = 0;
    for (char *item; (item = strsep(&text, ",")) != NULL;) {
        if (options->block_count == SIMULATE_SIZES)
            refuse("--block: more than %d sizes; run several times", SIMULATE_SIZES);
        char *size = strsep(&item, ":");
        struct simulate_block block = {
            .bytes = (unsigned)power_of_two("block", size, 32, 4096),
            .ways = item ? (unsigned)number("block", item, 1, CACHES_LARGEST_WAYS)
                         : CACHES_LARGEST_WAYS,
        };
        for (size_t i = 0; i < options->block_count; i++)
            if (options->blocks[i].bytes == block.bytes)
                refuse("--block: %u is given twice", block.bytes);
        options->blocks[options->block_count++] = block;
    }
}

static void refuse_shape(const char *text)
{
    char names[512] = "";
    for (const struct shape *shape = shapes_named; shape->name; shape++)
        snprintf(names + strlen(names), sizeof names - strlen(names), " %s", shape->name);
    refuse("--shape: \"%s\" is neither BLOCK:SETS:WAYS (block a power of two from 32 to 4096, sets "
           "1 to 4194304, ways 1 to 1024) nor one of:%s",
           text, names);
}

static struct shape shape_of(const char *text)
{
    for (const struct shape *shape = shapes_named; shape->name; shape++)
        if (strcmp(shape->name, text) == 0)
            return *shape;
    struct shape shape = {.name = text};
    int length = -1;
    sscanf(text, "%u:%" SCNu64 ":%u%n", &shape.block_bytes, &shape.sets, &shape.ways, &length);
    if (length < 0 || text[length] != '\0' || strchr(text, '-') || shape.block_bytes < 32 ||
        shape.block_bytes > 4096 || (shape.block_bytes & (shape.block_bytes - 1)) != 0 ||
        shape.sets < 1 || shape.sets > 1 << 22 || shape.ways < 1 || shape.ways > 1024)
        refuse_shape(text);
    return shape;
}

enum word { PAGES, CACHES, LOCALITY };

static struct simulate_options defaults(enum word word)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    struct simulate_options options = {
        .output = "-",
        .tools = "trace/recorder",
        .count = UINT64_MAX,
        .threads = online > 0 ? (unsigned)online : 1,
        .error_over = 100000000,
        .causes = word == CACHES,
    };
    char pages[] = "4096,8192", page[] = "4096", caches[] = "32,64", some_caches[] = "32:1,64:8";
    if (word != CACHES)
        take_page_sizes(&options, word == PAGES ? pages : page);
    if (word != PAGES)
        take_blocks(&options, word == CACHES ? caches : some_caches);
    return options;
}

enum {
    OUTPUT = 256,
    COUNT,
    THREADS,
    ERROR_OVER,
    PAGE_SIZE,
    SAMPLE,
    BLOCK,
    CAUSES,
    NO_CAUSES,
    SHAPE,
    STRADDLES_ONCE,
    TOOLS,
    ENVIRONMENT,
    HELP
};

static const struct option options_of[][16] = {
    [PAGES] =
        {
            {"output", required_argument, NULL, OUTPUT},
            {"count", required_argument, NULL, COUNT},
            {"threads", required_argument, NULL, THREADS},
            {"error-over", required_argument, NULL, ERROR_OVER},
            {"page-size", required_argument, NULL, PAGE_SIZE},
            {"sample", no_argument, NULL, SAMPLE},
            {"help", no_argument, NULL, HELP},
        },
    [CACHES] =
        {
            {"output", required_argument, NULL, OUTPUT},
            {"count", required_argument, NULL, COUNT},
            {"threads", required_argument, NULL, THREADS},
            {"error-over", required_argument, NULL, ERROR_OVER},
            {"block", required_argument, NULL, BLOCK},
            {"sample", required_argument, NULL, SAMPLE},
            {"no-causes", no_argument, NULL, NO_CAUSES},
            {"shape", required_argument, NULL, SHAPE},
            {"straddles-once", no_argument, NULL, STRADDLES_ONCE},
            {"help", no_argument, NULL, HELP},
        },
    [LOCALITY] =
        {
            {"output", required_argument, NULL, OUTPUT},
            {"threads", required_argument, NULL, THREADS},
            {"page-size", required_argument, NULL, PAGE_SIZE},
            {"block", required_argument, NULL, BLOCK},
            {"causes", no_argument, NULL, CAUSES},
            {"shape", required_argument, NULL, SHAPE},
            {"straddles-once", no_argument, NULL, STRADDLES_ONCE},
            {"tools", required_argument, NULL, TOOLS},
            {"env", required_argument, NULL, ENVIRONMENT},
            {"help", no_argument, NULL, HELP},
        },
};

static void take_setting(struct simulate_options *options, char *setting)
{
    if (!strchr(setting, '=') || setting[0] == '=')
        refuse("--env: \"%s\" is not NAME=VALUE", setting);
    if (options->environment_count == SIMULATE_SETTINGS)
        refuse("--env: more than %d settings", SIMULATE_SETTINGS);
    options->environment[options->environment_count++] = setting;
}

static void take_option(struct simulate_options *options, int option, char *value)
{
    switch (option) {
    case OUTPUT:
        options->output = value;
        break;
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
        take_page_sizes(options, value);
        break;
    case BLOCK:
        take_blocks(options, value);
        break;
    case SAMPLE:
        options->sampled = true;
        if (value)
            options->slices = (unsigned)number("sample", value, 1, CACHES_SLICES - 1);
        break;
    case CAUSES:
    case NO_CAUSES:
        options->causes = option == CAUSES;
        break;
    case SHAPE:
        if (options->shape_count == SIMULATE_SHAPES)
            refuse("--shape: more than %d shapes; run several times", SIMULATE_SHAPES);
        options->shapes[options->shape_count++] = shape_of(value);
        break;
    case STRADDLES_ONCE:
        options->straddles_once = true;
        break;
    case TOOLS:
        options->tools = value;
        break;
    case ENVIRONMENT:
        take_setting(options, value);
        break;
    case HELP:
        fputs(usage, stdout);
        exit(0);
    default:
        refuse("see allotrope-simulate --help");
    }
}

static struct simulate_options read_options(int argc, char **argv, enum word word)
{
    struct simulate_options options = defaults(word);
    int option;
    /* What follows a command's first word is the command's. */
    const char *order = word == LOCALITY ? "+" : "";
    while ((option = getopt_long(argc, argv, order, options_of[word], NULL)) != -1)
        take_option(&options, option, optarg);
    if (word == LOCALITY) {
        options.command = argv + optind;
        if (optind == argc)
            refuse("no command is given; usage: allotrope-simulate locality [OPTION]... -- "
                   "COMMAND...");
        return options;
    }
    if (optind + 1 != argc)
        refuse(optind == argc ? "no trace is named; - stands for standard input"
                              : "more than one trace is named; simulate them one by one");
    options.path = argv[optind];
    return options;
}

static FILE *open_output(const char *path)
{
    FILE *output = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!output)
        refuse("cannot write %s: %s", path, strerror(errno));
    return output;
}

static struct reference_source *open_source(const struct simulate_options *options)
{
    const char *error;
    struct reference_source *source =
        options->command
            ? reference_source_start(options->tools, options->environment, options->command, &error)
            : reference_source_open(options->path, &error);
    if (!source)
        refuse("%s", error);
    return source;
}

static void put_locality(struct json *json, struct page_jobs *pages, struct cache_jobs *caches,
                         struct reference_source *source)
{
    json_open(json, NULL);
    json_text(json, "schema", "allotrope.simulate.locality/1");
    json_integer(json, "status", reference_source_status(source));
    page_jobs_put(json, "pages", pages, source);
    cache_jobs_put(json, "caches", caches, source);
    json_close(json);
}

/* Simulates and prints. Returns NULL, or one line that says why there is no result. */
static const char *simulate(struct reference_source *source, const struct simulate_options *options,
                            FILE *output)
{
    static struct simulations simulations;
    struct page_jobs *pages = NULL;
    struct cache_jobs *caches = NULL;
    if ((options->page_size_count > 0 && (pages = page_jobs_make(options, &simulations)) == NULL) ||
        (options->block_count > 0 && (caches = cache_jobs_make(options, &simulations)) == NULL) ||
        simulate_all(source, options->count, &simulations, options->threads) < 0)
        return "memory is short";
    const char *error = pages ? page_jobs_finish(pages) : NULL;
    if (!error && caches)
        error = cache_jobs_finish(caches);
    for (size_t i = 0; i < simulations.count && !error; i++)
        error = simulations.list[i].failed ? "memory is short" : NULL;
    if (error)
        return error;
    struct json json = {.output = output};
    if (options->command)
        put_locality(&json, pages, caches, source);
    else if (pages)
        page_jobs_put(&json, NULL, pages, source);
    else
        cache_jobs_put(&json, NULL, caches, source);
    fputs("\n", output);
    return NULL;
}

int main(int argc, char **argv)
{
    static const char *const words[] = {"pages", "caches", "locality"};
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    enum word word = PAGES;
    while (argc > 1 && word <= LOCALITY && strcmp(argv[1], words[word]) != 0)
        word++;
    if (argc < 2 || word > LOCALITY)
        refuse("the first word is pages, caches or locality; see allotrope-simulate --help");
    argv[1] = argv[0];
    struct simulate_options options = read_options(argc - 1, argv + 1, word);
    FILE *output = open_output(options.output);
    struct reference_source *source = open_source(&options);
    const char *name = options.command ? options.command[0] : options.path;
    const char *error = simulate(source, &options, output);
    int status = 1;
    if (error)
        fprintf(stderr, "allotrope-simulate: %s\n", error);
    else if (reference_source_error(source))
        fprintf(stderr, "allotrope-simulate: %s: %s\n", name, reference_source_error(source));
    else if (fflush(output) != 0)
        fprintf(stderr, "allotrope-simulate: the result cannot be written: %s\n", strerror(errno));
    else
        status = 0;
    reference_source_close(source);
    return status;
}
