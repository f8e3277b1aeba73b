/* SPDX-License-Identifier: MIT
 *
 * main.c: allotrope-simulate, the program behind `allotrope simulate` and `locality`.
 *
 *   allotrope-simulate pages    [options] TRACE            page faults for every memory size
 *   allotrope-simulate caches   [options] TRACE            misses for every cache size
 *   allotrope-simulate tlb      [options] TRACE            misses for every TLB size
 *   allotrope-simulate locality [options] -- COMMAND...    all, of a program that runs meanwhile
 *
 * It reads references once, hands them to all simulators at the same time, and prints one JSON
 * object (docs/simulate-format.md). What is asked of it, and what is wrong with it, is settled
 * before anything is read. A result is written when it is whole, so that whoever kills the
 * simulator finds none, or the one before.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/simulate/options.h"
#include "analysis/simulate/output_file.h"
#include "analysis/simulate/parts.h"
#include "analysis/simulate/simulate_caches.h"
#include "analysis/simulate/simulate_pages.h"

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

static void put_locality(struct json *json, const struct simulate_options *options,
                         struct page_jobs *pages, struct cache_jobs *caches,
                         struct reference_source *source)
{
    json_open(json, NULL);
    json_text(json, "schema", "allotrope.simulate.locality/1");
    json_integer(json, "status", reference_source_status(source));
    reference_source_put_process(json, source);
    page_jobs_put(json, "pages", pages, source);
    cache_jobs_put(json, "caches", caches, source);
    if (options->tlbs.count > 0)
        cache_jobs_put_tlbs(json, "tlb", caches, source);
    json_close(json);
}

struct jobs {
    struct page_jobs *pages;
    struct cache_jobs *caches;
};

/* Returns NULL, or one line that says why there is no result. */
static const char *simulate(struct reference_source *source, const struct simulate_options *options,
                            struct jobs *jobs)
{
    static struct simulations simulations;
    if ((options->page_size_count > 0 &&
         (jobs->pages = page_jobs_make(options, &simulations)) == NULL) ||
        (options->blocks.count + options->tlbs.count > 0 &&
         (jobs->caches = cache_jobs_make(options, &simulations)) == NULL) ||
        simulate_all(source, options->count, &simulations, options->threads) < 0)
        return "memory is short";
    const char *error = jobs->pages ? page_jobs_finish(jobs->pages) : NULL;
    if (!error && jobs->caches)
        error = cache_jobs_finish(jobs->caches);
    for (size_t i = 0; i < simulations.count && !error; i++)
        error = simulations.list[i].failed ? "memory is short" : NULL;
    return error;
}

/* False: errno says why the result is not where it was to go. */
static bool put_result(const struct jobs *jobs, const struct simulate_options *options,
                       struct reference_source *source)
{
    struct output_file file;
    if (!output_file_open(&file, options->output))
        return false;
    struct json json = {.output = file.stream};
    if (options->command)
        put_locality(&json, options, jobs->pages, jobs->caches, source);
    else if (jobs->pages)
        page_jobs_put(&json, NULL, jobs->pages, source);
    else if (options->blocks.count > 0)
        cache_jobs_put(&json, NULL, jobs->caches, source);
    else
        cache_jobs_put_tlbs(&json, NULL, jobs->caches, source);
    fputs("\n", file.stream);
    return output_file_close(&file);
}

/* How many parts of --jobs are of use. */
static void say_plan(const struct simulate_options *options, enum simulate_word word,
                     struct reference_source *source)
{
    uint64_t most =
        word == SIMULATE_PAGES ? parts_count(source, options) : cache_parts_most(options);
    printf("%" PRIu64 "\n", most < options->jobs ? most : options->jobs);
}

/* The simulation itself. Returns NULL, or one line that says why there is no result. */
static const char *simulate_word(enum simulate_word word, struct simulate_options *options,
                                 struct reference_source *source, struct jobs *jobs)
{
    const char *error = NULL;
    if (word != SIMULATE_PAGES || options->jobs == 0)
        return simulate(source, options, jobs);
    jobs->pages = options->join ? parts_join(source, options, &error)
                                : parts_simulate(source, options, &error);
    return error;
}

/* Ends the program where the filters have left nothing. */
static void refuse_nothing_left(const struct simulate_options *options,
                                struct reference_source *source, const char *error)
{
    const struct filter *filter = &options->filter;
    if (error || reference_source_error(source) || filter->references == 0 || filter->passed > 0)
        return;
    char text[256];
    filter_explain(filter, text, sizeof text);
    refuse("%s", text);
}

/* Tells the source what is asked of it; ends the program where it cannot tell that. */
static void settle_source(struct reference_source *source, struct simulate_options *options)
{
    const char *error = NULL;
    if (filter_is_used(&options->filter))
        error = reference_source_filter(source, &options->filter);
    if (!error && options->window > 0)
        error = reference_source_set_windows(source, options->window_clock, options->window);
    if (!error && options->instructions)
        error = reference_source_by_instruction(source);
    if (error)
        refuse("%s", error);
}

int main(int argc, char **argv)
{
    static const char *const words[] = {"pages", "caches", "tlb", "locality"};
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        simulate_usage();
        return 0;
    }
    enum simulate_word word = SIMULATE_PAGES;
    while (argc > 1 && word <= SIMULATE_LOCALITY && strcmp(argv[1], words[word]) != 0)
        word++;
    if (argc < 2 || word > SIMULATE_LOCALITY)
        refuse("the first word is pages, caches, tlb or locality; see allotrope-simulate --help");
    argv[1] = argv[0];
    struct simulate_options options = simulate_options_read(argc - 1, argv + 1, word);
    if (!output_file_is_writable(options.output))
        refuse("cannot write %s: %s", options.output, strerror(errno));
    struct reference_source *source = open_source(&options);
    const char *name = options.command ? options.command[0] : options.path;
    settle_source(source, &options);
    if (options.plan) {
        say_plan(&options, word, source);
        return 0;
    }
    struct jobs jobs = {0};
    bool is_part = options.part >= 0 && word == SIMULATE_PAGES; /* whose errors go into it */
    const char *error =
        is_part ? parts_write(source, &options) : simulate_word(word, &options, source, &jobs);
    if (!is_part)
        refuse_nothing_left(&options, source, error);
    int status = 1;
    if (error)
        fprintf(stderr, "allotrope-simulate: %s\n", error);
    else if (!is_part && !put_result(&jobs, &options, source))
        fprintf(stderr, "allotrope-simulate: the result cannot be written: %s\n", strerror(errno));
    else if (!is_part && reference_source_error(source))
        fprintf(stderr, "allotrope-simulate: %s: %s\n", name, reference_source_error(source));
    else
        status = 0;
    reference_source_close(source);
    return status;
}
