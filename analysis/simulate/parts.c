/* SPDX-License-Identifier: MIT
 *
 * parts.c: where the parts begin, who runs them, and what of them counts.
 *
 * Where one part ends early, by damage or a reference that cannot be simulated, a single reader
 * would have ended too: what comes behind does not count.
 */
#include "analysis/simulate/parts.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/simulate/output_file.h"

struct part {
    struct reference_source *source;
    struct filter filter; /* of all but the first, which has the options' */
    struct simulations simulations;
    struct page_jobs *pages;
    int64_t simulated; /* references; -1: memory was short */
    pthread_t thread;
    bool has_thread;
};

/* The number of references that are to be split up. It may have an end only in the trace, where
 * that is damaged, or where a filter decides. */
static uint64_t references_told(const struct simulate_options *options, uint64_t references)
{
    references = references < options->count ? references : options->count;
    return references < options->filter.to ? references : options->filter.to;
}

/* Where a part ends: the last where the caller wants it to, and else at the trace's end. */
static uint64_t end_of_part(const struct simulate_options *options, uint64_t references,
                            uint64_t number, uint64_t count)
{
    if (number + 1 < count)
        return references / count * (number + 1) + references % count * (number + 1) / count;
    return options->count <= references ? options->count : UINT64_MAX;
}

/* Returns NULL, or one line that says why there is no such part. */
static const char *open_part(struct part *part, const struct simulate_options *options)
{
    const char *error = NULL;
    part->filter = options->filter;
    part->source = reference_source_open(options->path, &error);
    if (part->source && filter_is_used(&part->filter))
        error = reference_source_filter(part->source, &part->filter);
    return error;
}

static const char *make_jobs(struct part *part, const struct simulate_options *options, bool later)
{
    part->pages = page_jobs_make(options, &part->simulations);
    if (!part->pages)
        return "memory is short";
    if (later)
        page_jobs_keep_first_touches(part->pages);
    return NULL;
}

/* Makes part `number` of `count`, which may have a source already. */
static const char *make_part(struct part *part, uint64_t number, uint64_t count,
                             uint64_t references, const struct simulate_options *options)
{
    uint64_t from = number > 0 ? end_of_part(options, references, number - 1, count) : 0;
    uint64_t to = end_of_part(options, references, number, count);
    const char *error = part->source ? NULL : open_part(part, options);
    if (!error)
        error = reference_source_set_part(part->source, from, to);
    /* One that is written keeps first touches, whichever it is: then all are written alike. */
    if (!error)
        error = make_jobs(part, options, number > 0 || options->part >= 0);
    return error;
}

static void *run(void *argument)
{
    struct part *part = argument;
    part->simulated = simulate_all(part->source, UINT64_MAX, &part->simulations, 1);
    return NULL;
}

/* The first in this thread, and those for which there is no other. */
static void run_all(struct part *parts, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++)
        parts[i].has_thread = pthread_create(&parts[i].thread, NULL, run, &parts[i]) == 0;
    for (uint64_t i = 0; i < count; i++)
        if (!parts[i].has_thread)
            run(&parts[i]);
    for (uint64_t i = 1; i < count; i++)
        if (parts[i].has_thread)
            pthread_join(parts[i].thread, NULL);
}

/* Whether a single reader would have gone on behind this part. */
static bool came_to_its_end(const struct part *part)
{
    bool failed = part->simulated < 0 || reference_source_error(part->source);
    for (size_t i = 0; i < part->simulations.count; i++)
        failed = failed || part->simulations.list[i].failed;
    return !failed;
}

/* Joins the parts to the first. Returns NULL, or one line that says why there is no result. */
static const char *join_all(struct part *parts, uint64_t count, struct filter *filter)
{
    const char *error = parts[0].simulated < 0 ? "memory is short" : NULL;
    bool goes_on = came_to_its_end(&parts[0]);
    for (uint64_t i = 1; i < count && goes_on && !error; i++) {
        goes_on = came_to_its_end(&parts[i]);
        reference_source_join(parts[0].source, parts[i].source);
        filter_join(filter, &parts[i].filter);
        error = parts[i].simulated < 0 ? "memory is short"
                                       : page_jobs_join(parts[0].pages, parts[i].pages);
    }
    return error ? error : page_jobs_finish(parts[0].pages);
}

/* The line may be part of a source that is closed. */
static const char *kept(const char *error)
{
    static char text[1024];
    snprintf(text, sizeof text, "%s", error);
    return text;
}

/* Into how many parts the references are cut. Ends the program where they cannot be. */
static uint64_t cut(struct reference_source *source, const struct simulate_options *options,
                    uint64_t *references)
{
    const char *error = reference_source_count(source, references);
    if (error)
        refuse("%s", error);
    *references = references_told(options, *references);
    uint64_t count = *references < options->jobs ? *references : options->jobs;
    return count > 0 ? count : 1;
}

uint64_t parts_count(struct reference_source *source, const struct simulate_options *options)
{
    uint64_t references;
    return cut(source, options, &references);
}

struct page_jobs *parts_simulate(struct reference_source *first, struct simulate_options *options,
                                 const char **error)
{
    uint64_t references, count = cut(first, options, &references);
    *error = NULL;
    struct part *parts = calloc(count, sizeof *parts);
    if (!parts) {
        *error = "memory is short";
        return NULL;
    }
    parts[0].source = first;
    for (uint64_t i = 0; i < count && !*error; i++)
        *error = make_part(&parts[i], i, count, references, options);
    if (!*error) {
        run_all(parts, count);
        *error = join_all(parts, count, &options->filter);
    }
    struct page_jobs *pages = *error ? NULL : parts[0].pages;
    if (*error)
        *error = kept(*error);
    for (uint64_t i = 1; i < count; i++)
        if (parts[i].source)
            reference_source_close(parts[i].source);
    free(parts);
    return pages;
}

/* What stands before each part in a file. */
struct written {
    char magic[8];
    uint64_t number, jobs;
    uint64_t goes_on; /* a single reader would have gone on behind it */
};

static const char magic[8] = "altpart";

static bool put_part(FILE *file, struct part *part, const struct simulate_options *options)
{
    struct written head = {.number = (uint64_t)options->part, .jobs = options->jobs};
    memcpy(head.magic, magic, sizeof magic);
    head.goes_on = came_to_its_end(part);
    return fwrite(&head, sizeof head, 1, file) == 1 &&
           reference_source_write_told(part->source, file) &&
           filter_write_met(&options->filter, file) && page_jobs_write(part->pages, file);
}

const char *parts_write(struct reference_source *source, struct simulate_options *options)
{
    static struct part part;
    uint64_t references, count = cut(source, options, &references);
    uint64_t number = (uint64_t)options->part;
    if (number >= count)
        refuse("--part: there are only %d parts", (int)count);
    part.source = source;
    const char *error = make_part(&part, number, count, references, options);
    if (error)
        return error;
    run(&part);
    if (part.simulated < 0)
        return "memory is short";
    struct output_file file;
    bool written = output_file_open(&file, options->output) &&
                   put_part(file.stream, &part, options) && output_file_close(&file);
    return written ? NULL : "the part cannot be written, or memory is short";
}

/* Whether the next part of a file is the one that is expected. */
static bool read_head(FILE *file, const struct simulate_options *options, uint64_t number,
                      struct written *head)
{
    return fread(head, sizeof *head, 1, file) == 1 &&
           memcmp(head->magic, magic, sizeof magic) == 0 && head->number == number &&
           head->jobs == options->jobs;
}

/* Takes in one part more; the first of them becomes *pages. Returns NULL, or one line that says why
 * there is no result. */
static const char *join_next(FILE *file, struct reference_source *source,
                             struct simulate_options *options, struct page_jobs **pages)
{
    struct filter met;
    if (!reference_source_join_told(source, file) || !filter_read_met(&met, file))
        return "a part is cut";
    filter_join(&options->filter, &met);
    struct page_jobs *next = page_jobs_read(options, file);
    if (!next)
        return "a part is cut, or memory is short";
    if (*pages)
        return page_jobs_join(*pages, next);
    *pages = next;
    return NULL;
}

struct page_jobs *parts_join(struct reference_source *source, struct simulate_options *options,
                             const char **error)
{
    uint64_t count = parts_count(source, options);
    FILE *file = fopen(options->join, "re");
    if (!file)
        refuse("cannot read %s: %s", options->join, strerror(errno));
    struct page_jobs *pages = NULL;
    struct written head = {.goes_on = true};
    *error = NULL;
    for (uint64_t i = 0; i < count && head.goes_on && !*error; i++)
        *error = read_head(file, options, i, &head) ? join_next(file, source, options, &pages)
                                                    : "--join: a part is missing";
    fclose(file);
    if (!*error)
        *error = page_jobs_finish(pages);
    return *error ? NULL : pages;
}
