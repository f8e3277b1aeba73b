/* SPDX-License-Identifier: MIT
 *
 * simulate_pages.c: one simulator for each page size; beside a sampled one, an exact one over the
 * first references, from which the sample's error is taken.
 */
#include "analysis/simulate/simulate_pages.h"

#include <stdlib.h>

#include "analysis/simulate/output.h"
#include "analysis/simulate/sample.h"
#include "analysis/simulate/simulators/pages.h"

struct page_job {
    uint64_t page_bytes;
    struct pages *pages;
    struct sample sample;
};

struct page_jobs {
    const struct simulate_options *options;
    struct page_job list[SIMULATE_SIZES];
};

static struct class_totals totals_of(const struct pages *pages)
{
    struct class_totals totals;
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
        totals.of[class] = pages_class_totals(pages, class);
    return totals;
}

/* Notes the error of what a sample says of each number of frames. */
static void compare_histograms(struct sample_error *error, const struct lru_histogram *sampled,
                               const struct lru_histogram *exact, uint64_t touches)
{
    double exact_faults = (double)exact->cold, sampled_faults = (double)sampled->cold;
    size_t most = exact->length > sampled->length ? exact->length : sampled->length;
    for (size_t frames = most; frames-- > 1;) {
        exact_faults += frames < exact->length ? (double)exact->of_distance[frames] : 0;
        sampled_faults += frames < sampled->length ? (double)sampled->of_distance[frames] : 0;
        if (frames < exact->length)
            sample_error_add(error, sampled_faults, exact_faults, (double)touches);
    }
}

/* Holds the sample against the exact result, for every number of frames of the latter. While
 * every page is still followed there is nothing to compare. */
static bool compare(void *argument)
{
    struct page_job *job = argument;
    struct pages *pages = job->sample.exact;
    if (pages_halvings(job->pages) > 0) {
        struct lru_histogram exact = {0}, sampled = {0};
        bool summed =
            pages_sum_histograms(pages, &exact) && pages_sum_histograms(job->pages, &sampled);
        if (summed) {
            struct class_totals totals = totals_of(pages);
            struct reference_totals sum = class_totals_sum(&totals);
            compare_histograms(&job->sample.error, &sampled, &exact, sum.touches);
            job->sample.error.references = sum.references;
        }
        free(exact.of_distance);
        free(sampled.of_distance);
        if (!summed)
            return false;
    }
    pages_free(pages);
    job->sample.exact = NULL;
    return true;
}

static bool feed_pages(void *pages, const struct references *references)
{
    return pages_feed(pages, references);
}

/* The points of a curve: the first, and wherever one frame more saves faults. */
static void put_curve(struct json *json, const struct lru_histogram *histogram)
{
    uint64_t faults = histogram->cold;
    for (size_t distance = 1; distance < histogram->length; distance++)
        faults += histogram->of_distance[distance];
    json_number(json, "cold", histogram->cold);
    json_open_list(json, "curve");
    /* A reference at the last distance is a hit with as many frames as the histogram has places. */
    for (size_t frames = 1; frames <= histogram->length; frames++) {
        if (frames == 1 || histogram->of_distance[frames - 1] != 0) {
            json_open(json, NULL);
            json_number(json, "frames", frames);
            json_number(json, "faults", faults);
            json_number(json, "cold", histogram->cold);
            json_close(json);
        }
        faults -= frames < histogram->length ? histogram->of_distance[frames] : 0;
    }
    json_close_list(json);
}

static void put_sample(struct json *json, const struct page_job *job)
{
    json_open(json, "sample");
    json_number(json, "of", 1ULL << pages_halvings(job->pages));
    json_number(json, "pages", pages_followed(job->pages));
    put_sample_error(json, &job->sample.error);
    json_close(json);
}

static void put_class_curve(struct json *json, struct page_job *job, unsigned class,
                            uint64_t touches)
{
    static const struct lru_histogram none;
    const struct lru_histogram *histogram = pages_histogram(job->pages, class);
    json_open(json, NULL);
    put_class(json, class);
    json_number(json, "touches", touches);
    put_curve(json, histogram ? histogram : &none);
    json_close(json);
}

static void put_job(struct json *json, struct page_job *job, bool sampled)
{
    struct lru_histogram sum = {0};
    struct class_totals totals = totals_of(job->pages);
    json_open(json, NULL);
    json_number(json, "page_size", job->page_bytes);
    json_number(json, "touches", class_totals_sum(&totals).touches);
    if (sampled)
        put_sample(json, job);
    else
        json_null(json, "sample");
    pages_sum_histograms(job->pages, &sum);
    put_curve(json, &sum);
    free(sum.of_distance);
    json_open_list(json, "by_class");
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        if (totals.of[class].touches != 0)
            put_class_curve(json, job, class, totals.of[class].touches);
    }
    json_close_list(json);
    json_close(json);
}

static bool make_job(struct page_job *job, const struct simulate_options *options,
                     uint64_t page_bytes)
{
    struct pages_options part = {page_bytes, options->sampled}, whole = {page_bytes, false};
    job->page_bytes = page_bytes;
    job->pages = pages_new(&part);
    job->sample = (struct sample){
        .feed = feed_pages,
        .compare = compare,
        .job = job,
        .sampled = job->pages,
        .exact = options->sampled ? pages_new(&whole) : NULL,
        .left = options->error_over,
    };
    return job->pages && (job->sample.exact || !options->sampled);
}

static struct page_jobs *make_jobs(const struct simulate_options *options)
{
    struct page_jobs *jobs = calloc(1, sizeof *jobs);
    if (jobs)
        jobs->options = options;
    return jobs;
}

struct page_jobs *page_jobs_make(const struct simulate_options *options,
                                 struct simulations *simulations)
{
    struct page_jobs *jobs = make_jobs(options);
    if (!jobs)
        return NULL;
    for (size_t i = 0; i < options->page_size_count; i++) {
        if (!make_job(&jobs->list[i], options, options->page_sizes[i]))
            return NULL;
        simulations_add(simulations, sample_feed, &jobs->list[i].sample);
    }
    return jobs;
}

void page_jobs_keep_first_touches(struct page_jobs *jobs)
{
    for (size_t i = 0; i < jobs->options->page_size_count; i++)
        pages_keep_first_touches(jobs->list[i].pages);
}

const char *page_jobs_join(struct page_jobs *jobs, struct page_jobs *later)
{
    for (size_t i = 0; i < jobs->options->page_size_count; i++) {
        struct pages *pages = later->list[i].pages;
        if (pages_error(pages))
            return pages_error(pages);
        if (!pages_join(jobs->list[i].pages, pages))
            return "memory is short";
        pages_free(pages);
    }
    free(later);
    return NULL;
}

bool page_jobs_write(struct page_jobs *jobs, FILE *file)
{
    bool written = true;
    for (size_t i = 0; i < jobs->options->page_size_count && written; i++)
        written = pages_write(jobs->list[i].pages, file);
    return written;
}

struct page_jobs *page_jobs_read(const struct simulate_options *options, FILE *file)
{
    struct page_jobs *jobs = make_jobs(options);
    if (!jobs)
        return NULL;
    for (size_t i = 0; i < options->page_size_count; i++) {
        struct pages_options part = {options->page_sizes[i], false};
        jobs->list[i].page_bytes = part.page_bytes;
        jobs->list[i].pages = pages_read(&part, file);
        if (!jobs->list[i].pages)
            return NULL;
    }
    return jobs;
}

/* What keeps a job from having a result; NULL when nothing does. */
static const char *failure_of(struct page_job *job)
{
    struct lru_histogram sum;
    if (pages_error(job->pages))
        return pages_error(job->pages);
    if (job->sample.exact && pages_error(job->sample.exact))
        return pages_error(job->sample.exact);
    if (job->sample.exact && !compare(job))
        return "memory is short";
    /* What printing needs later is tried now. */
    if (!pages_sum_histograms(job->pages, &sum))
        return "memory is short";
    free(sum.of_distance);
    return NULL;
}

const char *page_jobs_finish(struct page_jobs *jobs)
{
    const char *failure = NULL;
    for (size_t i = 0; i < jobs->options->page_size_count && !failure; i++)
        failure = failure_of(&jobs->list[i]);
    return failure;
}

void page_jobs_put(struct json *json, const char *key, struct page_jobs *jobs,
                   const struct reference_source *source)
{
    struct class_totals totals = totals_of(jobs->list[0].pages);
    json_open(json, key);
    put_head(json, "allotrope.simulate.pages/1", &totals, source);
    json_open_list(json, "pages");
    for (size_t i = 0; i < jobs->options->page_size_count; i++) {
        json_new_line(json);
        put_job(json, &jobs->list[i], jobs->options->sampled);
    }
    json_new_line(json);
    json_close_list(json);
    json_close(json);
}
