/* SPDX-License-Identifier: MIT
 *
 * options.c: see options.h.
 */
#include "analysis/simulate/options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/simulate/region_map.h"
#include "trace/base/last_words.h"
#include "trace/base/number.h"
#include "trace/format/format.h"
#include "trace/format/names.h"

static const char usage[] =
    "Usage: allotrope-simulate pages [OPTION]... TRACE\n"
    "       allotrope-simulate caches [OPTION]... TRACE\n"
    "       allotrope-simulate tlb [OPTION]... TRACE\n"
    "       allotrope-simulate locality [OPTION]... -- COMMAND...\n"
    "Simulates the data references of TRACE (of `allotrope record`, or lackey's text; - for\n"
    "standard input), or of COMMAND under the recorder, and prints JSON. Sizes are in bytes, or\n"
    "with a K, M or G: 4K is 4096.\n\n"
    "All:\n"
    "  --output=FILE         where the JSON goes (default -, standard output)\n"
    "  --count=N             the first N references only; of a trace\n"
    "  --threads=N           default: the processors online\n"
    "  --jobs=N              N threads, among which each size is shared out: pages in N parts of\n"
    "                        time, which need a trace in a file, caches and TLBs by their sets.\n"
    "                        The result is the same to the byte; of a trace\n"
    "  --part=K              part K alone of the N of --jobs, from 0 to N-1. Of pages the output\n"
    "                        is what --join takes, no JSON; of caches and TLBs counts are of the\n"
    "                        part's own sets, and the last part has all shapes\n"
    "  --join=FILE           the result from the N parts of pages, which stand in FILE one behind\n"
    "                        the other; nothing is simulated\n"
    "  --plan                say how many parts of N are of use; nothing is simulated\n"
    "  --error-over=N        compare a sample with the exact result over the first N references\n"
    "                        (default 100000000); of a trace\n"
    "Filters: what does not pass is as if it had not happened\n"
    "  --thread=LIST         of these threads, numbered from 1 in the order of their creation\n"
    "  --class=LIST          of the program, allocator, collector, roots, mark or sweep\n"
    "  --region=LIST         to the stack, heap, static data or other\n"
    "  --function=PATTERN    by functions of that name, as in malloc or 'luaV_*'; repeatable\n"
    "  --references=FROM:TO  from number FROM on, counted from 0, up to before TO; either may be\n"
    "                        left out\n"
    "Pages:\n"
    "  --page-size=LIST      powers of two from 64 on (default 4K,8K; locality: 4K)\n"
    "  --sample              follow 8192 to 17536 pages, if there are more; of a trace\n"
    "Caches:\n"
    "  --block=LIST          block sizes, powers of two from 16 to 4096, each with the largest\n"
    "                        associativity, 1 to 16, if not 16: BLOCK[:WAYS] (default 32,64;\n"
    "                        locality: 32:1,64:8)\n"
    "  --sample=N            N of 32 slices of the sets, 1 to 31; of a trace\n"
    "  --no-causes           do not tell misses into cold, capacity and conflict: faster;\n"
    "                        locality does so only with --causes\n"
    "  --shape=SHAPE         also this cache or TLB, in detail: a name, or BLOCK:SETS:WAYS;\n"
    "                        repeatable\n"
    "  --window=N            misses of a --shape over time, by N references (default 4096); twice\n"
    "                        as many as often as it takes for 1024 windows to be enough\n"
    "  --window-bytes=SIZE   the same, by bytes that the program has asked malloc for\n"
    "  --straddles-once      a straddling reference misses once in a --shape, as cachegrind "
    "counts\n"
    "  --instructions        misses of a --shape by instruction too, and where files were mapped\n"
    "TLBs:\n"
    "  --tlb=LIST            page sizes, powers of two from 4K to 1G, each with the largest\n"
    "                        associativity, 1 to 16: PAGE[:WAYS] (default 4K,2M; locality: none);\n"
    "                        full associativity is always told\n"
    "  --shape=SHAPE         as above: 4K:16:4 has 64 entries for pages of 4 KiB\n"
    "Locality:\n"
    "  --tools=DIRECTORY     of the recorder (default trace/recorder)\n"
    "  --env=NAME=VALUE      set for COMMAND alone; repeatable\n";

void refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_last_words("allotrope-simulate", format, arguments);
    va_end(arguments);
    exit(2);
}

static uint64_t number(const char *option, const char *text, uint64_t least, uint64_t most)
{
    uint64_t value;
    if (!number_parse(text, least, most, &value))
        refuse("--%s: \"%s\" is not a number from %" PRIu64 " to %" PRIu64, option, text, least,
               most);
    return value;
}

/* Bytes: a number that K, M or G may follow. 0: it is none. */
static uint64_t bytes_of(const char *text)
{
    char digits[32];
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length >= sizeof digits || strlen(text + length) > 1)
        return 0;
    memcpy(digits, text, length);
    digits[length] = '\0';
    static const char letters[] = "KMG";
    const char *letter = strchr(letters, text[length]);
    if (!letter)
        return 0;
    unsigned shift = text[length] == '\0' ? 0 : 10 * (unsigned)(letter - letters + 1);
    uint64_t value;
    return number_parse(digits, 1, UINT64_MAX >> shift, &value) ? value << shift : 0;
}

static uint64_t power_of_two(const char *option, const char *text, uint64_t least, uint64_t most)
{
    uint64_t size = bytes_of(text);
    if (size < least || size > most)
        refuse("--%s: \"%s\" is not a number from %" PRIu64 " to %" PRIu64, option, text, least,
               most);
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

static void take_blocks(struct simulate_blocks *blocks, const char *option, char *text,
                        uint64_t least, uint64_t most)
{
    blocks->count = 0;
    for (char *item; (item = strsep(&text, ",")) != NULL;) {
        if (blocks->count == SIMULATE_SIZES)
            refuse("--%s: more than %d sizes; run several times", option, SIMULATE_SIZES);
        char *size = strsep(&item, ":");
        struct simulate_block block = {
            .bytes = power_of_two(option, size, least, most),
            .ways =
                item ? (unsigned)number(option, item, 1, CACHES_LARGEST_WAYS) : CACHES_LARGEST_WAYS,
        };
        for (size_t i = 0; i < blocks->count; i++)
            if (blocks->list[i].bytes == block.bytes)
                refuse("--%s: %" PRIu64 " is given twice", option, block.bytes);
        blocks->list[blocks->count++] = block;
    }
}

static void take_caches(struct simulate_options *options, char *text)
{
    take_blocks(&options->blocks, "block", text, CACHES_SMALLEST_BLOCK, 4096);
}

static void take_tlbs(struct simulate_options *options, char *text)
{
    take_blocks(&options->tlbs, "tlb", text, 4096, SHAPES_LARGEST_BLOCK);
}

static void refuse_shape(const char *text)
{
    char names[512] = "";
    for (const struct shape *shape = shapes_named; shape->name; shape++)
        snprintf(names + strlen(names), sizeof names - strlen(names), " %s", shape->name);
    refuse("--shape: \"%s\" is neither BLOCK:SETS:WAYS (block a power of two from 16 to 1G, sets "
           "1 to 4194304, ways 1 to 1024) nor one of:%s",
           text, names);
}

/* Reads a number from 1 to `most` and what ends it, ':' or the text's end. */
static bool read_part(const char **text, char end, uint64_t most, uint64_t *number)
{
    bool read = number_read(text, number) && **text == end && *number >= 1 && *number <= most;
    *text += read && end != '\0';
    return read;
}

static struct shape shape_of(const char *text)
{
    enum { SETS_MOST = 1 << 22, WAYS_MOST = 1024 };
    for (const struct shape *shape = shapes_named; shape->name; shape++)
        if (strcmp(shape->name, text) == 0)
            return *shape;
    char block[32] = "";
    size_t length = strcspn(text, ":");
    uint64_t sets, ways;
    const char *rest = text + length + (text[length] == ':');
    snprintf(block, sizeof block, "%.*s", (int)(length < sizeof block ? length : 0), text);
    uint64_t bytes = bytes_of(block);
    if (!read_part(&rest, ':', SETS_MOST, &sets) || !read_part(&rest, '\0', WAYS_MOST, &ways) ||
        bytes < CACHES_SMALLEST_BLOCK || bytes > SHAPES_LARGEST_BLOCK || (bytes & (bytes - 1)) != 0)
        refuse_shape(text);
    return (struct shape){.name = text, .block_bytes = bytes, .sets = sets, .ways = (unsigned)ways};
}

static unsigned processors_online(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

static struct simulate_options defaults(enum simulate_word word)
{
    struct simulate_options options = {
        .output = "-",
        .tools = "trace/recorder",
        .count = UINT64_MAX,
        .part = -1,
        .filter = FILTER_NONE,
        .error_over = 100000000,
        .causes = word == SIMULATE_CACHES,
    };
    char pages[] = "4096,8192", page[] = "4096", caches[] = "32,64", some_caches[] = "32:1,64:8";
    char tlbs[] = "4K,2M";
    if (word == SIMULATE_PAGES || word == SIMULATE_LOCALITY)
        take_page_sizes(&options, word == SIMULATE_PAGES ? pages : page);
    if (word == SIMULATE_CACHES || word == SIMULATE_LOCALITY)
        take_caches(&options, word == SIMULATE_CACHES ? caches : some_caches);
    if (word == SIMULATE_TLB)
        take_tlbs(&options, tlbs);
    return options;
}

enum { JOBS_MOST = 256 };

enum {
    OUTPUT = 256,
    COUNT,
    THREADS,
    ERROR_OVER,
    JOBS,
    PART,
    JOIN,
    PLAN,
    PAGE_SIZE,
    SAMPLE,
    BLOCK,
    TLB,
    CAUSES,
    NO_CAUSES,
    INSTRUCTIONS,
    SHAPE,
    STRADDLES_ONCE,
    TOOLS,
    ENVIRONMENT,
    THREAD,
    CLASS,
    REGION,
    FUNCTION,
    REFERENCES,
    WINDOW,
    WINDOW_BYTES,
    HELP
};

enum {
    IN_PAGES = 1 << SIMULATE_PAGES,
    IN_CACHES = 1 << SIMULATE_CACHES,
    IN_TLB = 1 << SIMULATE_TLB,
    IN_LOCALITY = 1 << SIMULATE_LOCALITY,
    OF_A_TRACE = IN_PAGES | IN_CACHES | IN_TLB,
    IN_ALL = OF_A_TRACE | IN_LOCALITY,
};

static const struct {
    struct option option;
    unsigned words; /* that know it */
} known[] = {
    {{"output", required_argument, NULL, OUTPUT}, IN_ALL},
    {{"count", required_argument, NULL, COUNT}, OF_A_TRACE},
    {{"threads", required_argument, NULL, THREADS}, IN_ALL},
    {{"error-over", required_argument, NULL, ERROR_OVER}, IN_PAGES | IN_CACHES},
    {{"thread", required_argument, NULL, THREAD}, IN_ALL},
    {{"class", required_argument, NULL, CLASS}, IN_ALL},
    {{"region", required_argument, NULL, REGION}, IN_ALL},
    {{"function", required_argument, NULL, FUNCTION}, IN_ALL},
    {{"references", required_argument, NULL, REFERENCES}, IN_ALL},
    {{"jobs", required_argument, NULL, JOBS}, OF_A_TRACE},
    {{"part", required_argument, NULL, PART}, OF_A_TRACE},
    {{"join", required_argument, NULL, JOIN}, IN_PAGES},
    {{"plan", no_argument, NULL, PLAN}, OF_A_TRACE},
    {{"page-size", required_argument, NULL, PAGE_SIZE}, IN_PAGES | IN_LOCALITY},
    {{"sample", no_argument, NULL, SAMPLE}, IN_PAGES},
    {{"block", required_argument, NULL, BLOCK}, IN_CACHES | IN_LOCALITY},
    {{"tlb", required_argument, NULL, TLB}, IN_TLB | IN_LOCALITY},
    {{"sample", required_argument, NULL, SAMPLE}, IN_CACHES},
    {{"no-causes", no_argument, NULL, NO_CAUSES}, IN_CACHES},
    {{"causes", no_argument, NULL, CAUSES}, IN_LOCALITY},
    {{"shape", required_argument, NULL, SHAPE}, IN_CACHES | IN_TLB | IN_LOCALITY},
    {{"window", required_argument, NULL, WINDOW}, IN_CACHES | IN_TLB | IN_LOCALITY},
    {{"window-bytes", required_argument, NULL, WINDOW_BYTES}, IN_CACHES | IN_TLB | IN_LOCALITY},
    {{"straddles-once", no_argument, NULL, STRADDLES_ONCE}, IN_CACHES | IN_TLB | IN_LOCALITY},
    {{"instructions", no_argument, NULL, INSTRUCTIONS}, IN_CACHES | IN_TLB | IN_LOCALITY},
    {{"tools", required_argument, NULL, TOOLS}, IN_LOCALITY},
    {{"env", required_argument, NULL, ENVIRONMENT}, IN_LOCALITY},
    {{"help", no_argument, NULL, HELP}, IN_ALL},
};
enum { KNOWN = sizeof known / sizeof *known };

static void take_setting(struct simulate_options *options, char *setting)
{
    if (!strchr(setting, '=') || setting[0] == '=')
        refuse("--env: \"%s\" is not NAME=VALUE", setting);
    if (options->environment_count == SIMULATE_SETTINGS)
        refuse("--env: more than %d settings", SIMULATE_SETTINGS);
    options->environment[options->environment_count++] = setting;
}

static void take_threads(struct filter *filter, char *text)
{
    filter->thread_count = 0;
    for (char *item; (item = strsep(&text, ",")) != NULL;) {
        if (filter->thread_count == FILTER_THREADS)
            refuse("--thread: more than %d threads", FILTER_THREADS);
        filter->threads[filter->thread_count++] = (uint32_t)number("thread", item, 1, UINT32_MAX);
    }
}

/* Bits for the names of a list, among `count` that `name` tells. */
static uint32_t take_names(const char *option, char *text, uint32_t count,
                           const char *(*name)(uint32_t))
{
    uint32_t bits = 0;
    for (char *item; (item = strsep(&text, ",")) != NULL;) {
        uint32_t i = 0;
        while (i < count && strcmp(item, name(i)) != 0)
            i++;
        if (i == count) {
            char names[128] = "";
            for (i = 0; i < count; i++)
                snprintf(names + strlen(names), sizeof names - strlen(names), " %s", name(i));
            refuse("--%s: \"%s\" is none of:%s", option, item, names);
        }
        bits |= 1U << i;
    }
    return bits;
}

static const char *region_name(uint32_t region)
{
    return region_class_name((enum region_class)region);
}

static void take_references(struct filter *filter, const char *text)
{
    const char *colon = strchr(text, ':');
    char from[32] = "";
    if (!colon || colon - text >= (ptrdiff_t)sizeof from)
        refuse("--references: \"%s\" is not FROM:TO", text);
    memcpy(from, text, (size_t)(colon - text));
    filter->from = from[0] ? number("references", from, 0, UINT64_MAX) : 0;
    filter->to = colon[1] ? number("references", colon + 1, 0, UINT64_MAX) : UINT64_MAX;
    if (filter->from >= filter->to)
        refuse("--references: nothing is from %" PRIu64 " up to before %" PRIu64, filter->from,
               filter->to);
}

/* What chooses among references and measures their time. False: it is another option. */
static bool take_choice(struct simulate_options *options, int option, char *value)
{
    switch (option) {
    case THREAD:
        take_threads(&options->filter, value);
        break;
    case CLASS:
        options->filter.classes = take_names("class", value, TRACE_CLASSES, trace_class_name);
        break;
    case REGION:
        options->filter.regions = take_names("region", value, REGION_CLASSES, region_name);
        break;
    case FUNCTION:
        if (options->filter.function_count == FILTER_PATTERNS)
            refuse("--function: more than %d patterns", FILTER_PATTERNS);
        options->filter.functions_wanted[options->filter.function_count++] = value;
        break;
    case REFERENCES:
        take_references(&options->filter, value);
        break;
    case WINDOW:
        options->window_clock = WINDOW_REFERENCES;
        options->window = number("window", value, WINDOW_SMALLEST, UINT64_MAX >> 16);
        break;
    case WINDOW_BYTES:
        options->window_clock = WINDOW_ALLOCATED_BYTES;
        options->window = bytes_of(value);
        if (options->window < WINDOW_SMALLEST || options->window > UINT64_MAX >> 16)
            refuse("--window-bytes: \"%s\" is not a number of bytes from %d on", value,
                   WINDOW_SMALLEST);
        break;
    default:
        return false;
    }
    return true;
}

/* How the work is shared out, among threads or processes. False: it is another option. */
static bool take_sharing(struct simulate_options *options, int option, char *value)
{
    switch (option) {
    case THREADS:
        options->threads = (unsigned)number("threads", value, 1, 1024);
        break;
    case JOBS:
        options->jobs = (unsigned)number("jobs", value, 1, JOBS_MOST);
        break;
    case PART:
        options->part = (int)number("part", value, 0, JOBS_MOST - 1);
        break;
    case JOIN:
        options->join = value;
        break;
    case PLAN:
        options->plan = true;
        break;
    default:
        return false;
    }
    return true;
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
    case ERROR_OVER:
        options->error_over = number("error-over", value, 1, UINT64_MAX);
        break;
    case PAGE_SIZE:
        take_page_sizes(options, value);
        break;
    case BLOCK:
        take_caches(options, value);
        break;
    case TLB:
        take_tlbs(options, value);
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
    case INSTRUCTIONS:
        options->instructions = true;
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
        if (!take_choice(options, option, value) && !take_sharing(options, option, value))
            refuse("see allotrope-simulate --help");
    }
}

/* Refuses what a part of a trace cannot tell without those before it, and what makes no sense. */
static void check_jobs(const struct simulate_options *options, enum simulate_word word)
{
    bool in_parts = options->part >= 0 || options->join || options->plan;
    if (in_parts && (options->jobs == 0 || options->part >= (int)options->jobs))
        refuse("--part=K, --join and --plan need --jobs=N, and K is less than N");
    if (options->jobs == 0)
        return;
    if (options->threads > 0)
        refuse("--jobs and --cluster tell the threads too; leave out --threads");
    if (options->sampled)
        refuse("--jobs and --cluster: a sample is not shared out; leave out --sample");
    if (word != SIMULATE_PAGES)
        return;
    if (options->filter.regions != 0)
        refuse("--jobs and --cluster: a region depends on the mappings so far; leave out --region");
    if (options->count < UINT64_MAX && filter_is_used(&options->filter))
        refuse("--jobs and --cluster: --count counts what passes the filters so far; leave out one "
               "of them");
}

static bool has_shape_of(const struct simulate_options *options, uint64_t block_bytes)
{
    for (size_t i = 0; i < options->shape_count; i++)
        if (options->shapes[i].block_bytes == block_bytes)
            return true;
    return false;
}

/* Gives the sizes of a list their LRU stacks, where causes are told. Of several parts each has some
 * of them, and the last those from which the causes of shapes come. */
static void give_stacks(const struct simulate_options *options, struct simulate_blocks *blocks,
                        bool causes)
{
    int last = (int)options->jobs - 1;
    for (size_t i = 0; i < blocks->count; i++) {
        struct simulate_block *block = &blocks->list[i];
        block->with_stack = causes;
        if (options->part < 0)
            continue;
        int part = has_shape_of(options, block->bytes) ? last : last - (int)(i % options->jobs);
        block->with_stack = causes && options->part == part;
    }
}

/* Who keeps which LRU stacks, and leaves the shapes to the last part. */
static void share_out(struct simulate_options *options)
{
    give_stacks(options, &options->blocks, options->causes);
    give_stacks(options, &options->tlbs, true);
    if (options->part >= 0 && options->part + 1 < (int)options->jobs) {
        options->shape_count = 0;
        options->instructions = false;
    }
}

struct simulate_options simulate_options_read(int argc, char **argv, enum simulate_word word)
{
    struct simulate_options options = defaults(word);
    struct option names[KNOWN + 1] = {{0}};
    size_t count = 0;
    for (size_t i = 0; i < KNOWN; i++)
        if (known[i].words & 1U << word)
            names[count++] = known[i].option;
    /* What follows a command's first word is the command's. */
    const char *order = word == SIMULATE_LOCALITY ? "+" : "";
    for (int option; (option = getopt_long(argc, argv, order, names, NULL)) != -1;)
        take_option(&options, option, optarg);
    check_jobs(&options, word);
    share_out(&options);
    if (options.part >= 0)
        options.threads = 1;
    else if (options.threads == 0)
        options.threads = options.jobs > 0 ? options.jobs : processors_online();
    if (word == SIMULATE_LOCALITY) {
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

void simulate_usage(void)
{
    fputs(usage, stdout);
}
