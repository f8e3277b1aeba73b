/* SPDX-License-Identifier: MIT
 *
 * simulate_pages.c: one simulator for each page size; beside a sampled one, an exact one over the
 * first references, from which the sample's error is taken.
 */
#include "analysis/simulate/simulate_pages.h"

#include <stdlib.h>

#include "analysis/simulate/output.h"
#include "analysis/simulate/simulators/pages.h"

struct page_job {
    uint64_t page_bytes;
    struct pages *pages;
    struct pages *exact; /* NULL when nothing is sampled, or once compared */
    uint64_t left;       /* references until they are compared */
    struct sample_error error;
    const char *failure;
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

/* Adds the distances of a class, or of all (-1), into a row; returns its length, 0 when memory is
 * short. *distances is to be freed, *cold is set. */
static size_t gather(struct pages *pages, int class, uint64_t **distances, uint64_t *cold)
{
    struct lru_histogram sum = {0};
    unsigned first = class < 0 ? 0 : (unsigned)class;
    unsigned last = class < 0 ? REFERENCE_CLASSES - 1 : (unsigned)class;
    for (unsigned i = first; i <= last; i++) {
        const struct lru_histogram *one = pages_histogram(pages, i);
        if (!one || !lru_histogram_reach(&sum, one->length - 1)) {
            free(sum.of_distance);
            return 0;
        }
        sum.cold += one->cold;
        for (size_t distance = 0; distance < one->length; distance++)
            sum.of_distance[distance] += one->of_distance[distance];
    }
    *distances = sum.of_distance;
    *cold = sum.cold;
    return sum.length;
}

/* Holds the sample against the exact result, for every number of frames of the latter. While
 * every page is still followed there is nothing to compare. */
static void compare(struct page_job *job)
{
    uint64_t *exact, *sampled, exact_cold, sampled_cold;
    if (pages_halvings(job->pages) > 0) {
        size_t exact_length = gather(job->exact, -1, &exact, &exact_cold);
        size_t sampled_length = gather(job->pages, -1, &sampled, &sampled_cold);
        if (exact_length == 0 || sampled_length == 0) {
            job->failure = "memory is short";
            return;
        }
        struct class_totals totals = totals_of(job->exact);
        struct reference_totals sum = class_totals_sum(&totals);
        double exact_faults = (double)exact_cold, sampled_faults = (double)sampled_cold;
        size_t most = exact_length > sampled_length ? exact_length : sampled_length;
        for (size_t frames = most; frames-- > 1;) {
            exact_faults += frames < exact_length ? (double)exact[frames] : 0;
            sampled_faults += frames < sampled_length ? (double)sampled[frames] : 0;
            if (frames < exact_length)
                sample_error_add(&job->error, sampled_faults, exact_faults, (double)sum.touches);
        }
        job->error.references = sum.references;
        free(exact);
        free(sampled);
    }
    pages_free(job->exact);
    job->exact = NULL;
}

static bool feed_one(struct page_job *job, struct pages *pages, const struct references *batch)
{
    if (pages_feed(pages, batch))
        return true;
    job->failure = pages_error(pages);
    return false;
}

static bool feed(void *argument, const struct references *references)
{
    struct page_job *job = argument;
    struct references rest = *references;
    if (job->exact) {
        struct references first = rest;
        first.count = first.count < job->left ? first.count : job->left;
        if (!feed_one(job, job->pages, &first) || !feed_one(job, job->exact, &first))
            return false;
        job->left -= first.count;
        rest.count -= first.count;
        rest.reference += first.count;
        if (job->left == 0)
            compare(job);
    }
    return !job->failure && feed_one(job, job->pages, &rest);
}

/* The points of a curve: the first, and wherever one frame more saves faults. */
static void put_curve(struct json *json, struct pages *pages, int class)
{
    uint64_t *distances = NULL, cold = 0;
    size_t length = gather(pages, class, &distances, &cold);
    uint64_t faults = cold;
    for (size_t distance = 1; distance < length; distance++)
        faults += distances[distance];
    json_number(json, "cold", cold);
    json_open_list(json, "curve");
    for (size_t frames = 1; frames < length; frames++) {
        if (frames == 1 || distances[frames - 1] != 0) {
            json_open(json, NULL);
            json_number(json, "frames", frames);
            json_number(json, "faults", faults);
            json_number(json, "cold", cold);
            json_close(json);
        }
        faults -= distances[frames];
    }
    json_close_list(json);
    free(distances);
}

static void put_sample(struct json *json, const struct page_job *job)
{
    json_open(json, "sample");
    json_number(json, "of", 1ULL << pages_halvings(job->pages));
    json_number(json, "pages", pages_followed(job->pages));
    put_sample_error(json, &job->error);
    json_close(json);
}

static void put_job(struct json *json, struct page_job *job, bool sampled)
{
    struct class_totals totals = totals_of(job->pages);
    json_open(json, NULL);
    json_number(json, "page_size", job->page_bytes);
    json_number(json, "touches", class_totals_sum(&totals).touches);
    if (sampled)
        put_sample(json, job);
    else
        json_null(json, "sample");
    put_curve(json, job->pages, -1);
    json_open_list(json, "by_class");
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        if (totals.of[class].touches == 0)
            continue;
        json_open(json, NULL);
        put_class(json, class);
        json_number(json, "touches", totals.of[class].touches);
        put_curve(json, job->pages, (int)class);
        json_close(json);
    }
    json_close_list(json);
    json_close(json);
}

struct page_jobs *page_jobs_make(const struct simulate_options *options,
                                 struct simulations *simulations)
{
    struct page_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return NULL;
    jobs->options = options;
    for (size_t i = 0; i < options->page_size_count; i++) {
        struct pages_options one = {options->page_sizes[i], options->sampled};
        struct pages_options exact = {options->page_sizes[i], false};
        struct page_job *job = &jobs->list[i];
        job->page_bytes = one.page_bytes;
        job->left = options->error_over;
        job->pages = pages_new(&one);
        job->exact = options->sampled ? pages_new(&exact) : NULL;
        if (!job->pages || (job->exact != NULL) != options->sampled)
            return NULL;
        simulations_add(simulations, feed, job);
    }
    return jobs;
}

const char *page_jobs_finish(struct page_jobs *jobs)
{
    for (size_t i = 0; i < jobs->options->page_size_count; i++) {
        struct page_job *job = &jobs->list[i];
        uint64_t *distances = NULL, cold;
        if (!job->failure && job->exact)
            compare(job);
        /* What printing needs later is tried now. */
        if (!job->failure && gather(job->pages, -1, &distances, &cold) == 0)
            job->failure = "memory is short";
        free(distances);
        if (job->failure)
            return job->failure;
    }
    return NULL;
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
