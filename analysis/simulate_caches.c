/* SPDX-License-Identifier: MIT */
/* simulate_caches.c: for each block size a simulator of all caches and, where causes are asked
 * for, an LRU stack over blocks: it knows what a fully associative cache of any size misses.
 *
 * Causes, after Hill and Smith 1989: cold misses are first touches of a block; capacity misses
 * are what a fully associative LRU cache of the same size misses beyond those; conflict misses
 * are the rest. They are negative where limited associativity does better than LRU over all, as
 * it can on loops slightly larger than the cache.
 */
#include "analysis/simulate_caches.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/simulate_output.h"
#include "analysis/simulate_rounds.h"
#include "analysis/simulators/caches.h"
#include "analysis/simulators/pages.h"
#include "analysis/simulators/shapes.h"

struct block_job {
    unsigned block_bytes;
    unsigned ways; /* the largest associativity */
    struct caches *caches;
    struct caches *exact; /* NULL when nothing is sampled, or once compared */
    double scale;         /* of a sample */
    uint64_t left;        /* references until they are compared */
    struct sample_error error;
    struct pages *blocks; /* NULL without causes */
    uint64_t cold;        /* first touches of a block */
    uint64_t *capacity; /* [sizes]: further misses of a fully associative cache of so many blocks */
    size_t sizes;
};

struct shape_job {
    struct shape shape;
    struct shape_cache *cache;
};

struct jobs {
    const struct simulate_options *options;
    struct block_job blocks[SIMULATE_SIZES];
    struct shape_job shapes[SIMULATE_SHAPES];
    struct simulation simulations[2 * SIMULATE_SIZES + SIMULATE_SHAPES];
    size_t simulation_count;
};

/* So many of 32 slices, spread over them by a step that is coprime to 32. */
static uint32_t choose_slices(unsigned count)
{
    uint32_t slices = 0;
    for (unsigned i = 0; i < count; i++)
        slices |= 1U << (5 + 11 * i) % CACHES_SLICES;
    return slices;
}

static struct class_totals totals_of(const struct caches *caches)
{
    struct class_totals totals;
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
        totals.of[class] = caches_class_totals(caches, class);
    return totals;
}

static uint64_t misses_of_all(const struct caches *caches, unsigned sets_log2, unsigned ways)
{
    uint64_t sum = 0;
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
        sum += caches_misses(caches, sets_log2, ways, class);
    return sum;
}

static void compare(struct block_job *job)
{
    struct class_totals totals = totals_of(job->exact);
    struct reference_totals sum = class_totals_sum(&totals);
    for (unsigned sets = CACHES_SMALLEST_SETS_LOG2; sets <= CACHES_LARGEST_SETS_LOG2; sets++)
        for (unsigned ways = 1; ways <= job->ways; ways++)
            sample_error_add(&job->error,
                             job->scale * (double)misses_of_all(job->caches, sets, ways),
                             (double)misses_of_all(job->exact, sets, ways), (double)sum.touches);
    job->error.references = sum.references;
    caches_free(job->exact);
    job->exact = NULL;
}

static bool feed_caches(void *argument, const struct references *references)
{
    struct block_job *job = argument;
    struct references rest = *references;
    if (job->exact != NULL) {
        struct references first = rest;
        first.count = first.count < job->left ? first.count : job->left;
        if (!caches_feed(job->caches, &first) || !caches_feed(job->exact, &first))
            return false;
        job->left -= first.count;
        rest.count -= first.count;
        rest.reference += first.count;
        if (job->left == 0)
            compare(job);
    }
    return caches_feed(job->caches, &rest);
}

static bool feed_blocks(void *argument, const struct references *references)
{
    struct block_job *job = argument;
    return pages_feed(job->blocks, references);
}

static bool feed_shape(void *argument, const struct references *references)
{
    struct shape_job *job = argument;
    return shape_cache_feed(job->cache, references);
}

static void add_simulation(struct jobs *jobs, bool (*feed)(void *, const struct references *),
                           void *simulator)
{
    jobs->simulations[jobs->simulation_count++] =
        (struct simulation){.feed = feed, .simulator = simulator};
}

static bool make_block_job(struct jobs *jobs, struct block_job *job, unsigned block_bytes)
{
    const struct simulate_options *options = jobs->options;
    struct caches_options whole = {block_bytes, options->ways, true, UINT32_MAX};
    struct caches_options part = whole;
    if (options->sampled)
        part.slices = choose_slices(options->slices);
    job->block_bytes = block_bytes;
    job->ways = options->ways;
    job->left = options->error_over;
    job->scale = options->sampled ? (double)CACHES_SLICES / options->slices : 1;
    job->caches = caches_new(&part);
    job->exact = options->sampled ? caches_new(&whole) : NULL;
    if (options->causes) {
        struct pages_options blocks = {block_bytes, false};
        job->blocks = pages_new(&blocks);
        add_simulation(jobs, feed_blocks, job);
    }
    add_simulation(jobs, feed_caches, job);
    return job->caches != NULL && (job->exact != NULL) == options->sampled &&
           (job->blocks != NULL) == options->causes;
}

/* Sums up what fully associative caches of every size miss beyond cold misses. */
static bool sum_capacity(struct block_job *job)
{
    struct lru_histogram sum = {0};
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        const struct lru_histogram *one = pages_histogram(job->blocks, class);
        if (one == NULL || !lru_histogram_reach(&sum, one->length - 1))
            return false;
        job->cold += one->cold;
        for (size_t distance = 0; distance < one->length; distance++)
            sum.of_distance[distance] += one->of_distance[distance];
    }
    for (size_t size = sum.length - 1; size-- > 0;)
        sum.of_distance[size] += sum.of_distance[size + 1];
    job->capacity = sum.of_distance;
    job->sizes = sum.length;
    return true;
}

/* Prints `"cold": ..., "capacity": ..., "conflict": ...` of a cache of `blocks` blocks. */
static void print_causes(FILE *output, const struct block_job *job, uint64_t blocks,
                         uint64_t misses)
{
    if (job == NULL || job->blocks == NULL) {
        fputs("\"cold\": null, \"capacity\": null, \"conflict\": null", output);
        return;
    }
    uint64_t capacity = blocks < job->sizes ? job->capacity[blocks] : 0;
    int64_t conflict = (int64_t)(misses - job->cold - capacity);
    fprintf(output, "\"cold\": %" PRIu64 ", \"capacity\": %" PRIu64 ", \"conflict\": %" PRId64,
            job->cold, capacity, conflict);
}

static void print_misses_of_classes(FILE *output, const uint64_t *misses)
{
    fputs("\"misses_by_class\": {", output);
    const char *separator = "";
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        if (misses[class] == 0)
            continue;
        fputs(separator, output);
        print_class_name(output, class);
        fprintf(output, ": %" PRIu64, misses[class]);
        separator = ", ";
    }
    fputs("}", output);
}

static uint64_t scaled(const struct block_job *job, uint64_t count)
{
    return job->scale == 1 ? count : (uint64_t)((double)count * job->scale + 0.5);
}

static void print_cache(FILE *output, const struct block_job *job, unsigned sets_log2,
                        unsigned ways)
{
    uint64_t of_class[REFERENCE_CLASSES], misses = 0;
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        of_class[class] = scaled(job, caches_misses(job->caches, sets_log2, ways, class));
        misses += of_class[class];
    }
    uint64_t blocks = (uint64_t)ways << sets_log2;
    fprintf(output,
            "{\"block\": %u, \"sets\": %llu, \"ways\": %u, \"bytes\": %" PRIu64
            ", \"misses\": %" PRIu64 ", \"write_backs\": %" PRIu64 ", ",
            job->block_bytes, 1ULL << sets_log2, ways, blocks * job->block_bytes, misses,
            scaled(job, caches_write_backs(job->caches, sets_log2, ways)));
    print_causes(output, job, blocks, misses);
    fputs(", ", output);
    print_misses_of_classes(output, of_class);
    fputs("}", output);
}

static void print_blocks(FILE *output, const struct jobs *jobs)
{
    fputs(", \"blocks\": [", output);
    for (size_t i = 0; i < jobs->options->size_count; i++) {
        const struct block_job *job = &jobs->blocks[i];
        struct class_totals totals = totals_of(job->caches);
        fprintf(output, "%s\n{\"block\": %u, \"touches\": %" PRIu64 ", ", i > 0 ? "," : "",
                job->block_bytes, class_totals_sum(&totals).touches);
        if (jobs->options->sampled) {
            fprintf(output, "\"sample\": {\"slices\": %u, \"of\": %d, ", jobs->options->slices,
                    CACHES_SLICES);
            print_sample_error(output, &job->error);
            fputs("}}", output);
        } else {
            fputs("\"sample\": null}", output);
        }
    }
    fputs("]", output);
}

static void print_results(FILE *output, const struct jobs *jobs)
{
    fputs(",\n\"results\": [", output);
    const char *separator = "";
    for (size_t i = 0; i < jobs->options->size_count; i++)
        for (unsigned sets = CACHES_SMALLEST_SETS_LOG2; sets <= CACHES_LARGEST_SETS_LOG2; sets++)
            for (unsigned ways = 1; ways <= jobs->options->ways; ways++) {
                fprintf(output, "%s\n", separator);
                print_cache(output, &jobs->blocks[i], sets, ways);
                separator = ",";
            }
    fputs("]", output);
}

static const struct block_job *block_job_of(const struct jobs *jobs, unsigned block_bytes)
{
    for (size_t i = 0; i < jobs->options->size_count; i++)
        if (jobs->blocks[i].block_bytes == block_bytes)
            return &jobs->blocks[i];
    return NULL;
}

static void print_row(FILE *output, const char *name, const uint64_t *counts, size_t length)
{
    fprintf(output, ",\n\"%s\": [", name);
    for (size_t i = 0; i < length; i++)
        fprintf(output, "%s%" PRIu64, i > 0 ? ", " : "", counts[i]);
    fputs("]", output);
}

/* Prints the functions that missed, by their numbers in the trace. */
static void print_functions(FILE *output, const struct shape_counts *counts)
{
    fputs(",\n\"misses_by_function\": [", output);
    const char *separator = "";
    for (size_t function = 0; function < counts->functions; function++)
        if (counts->misses_of_function[function] != 0) {
            fprintf(output, "%s{\"function\": %zu, \"misses\": %" PRIu64 "}", separator, function,
                    counts->misses_of_function[function]);
            separator = ", ";
        }
    fputs("]", output);
}

static void print_shape(FILE *output, const struct jobs *jobs, const struct shape_job *job)
{
    const struct shape *shape = &job->shape;
    const struct shape_counts *counts = shape_cache_counts(job->cache);
    uint64_t blocks = shape->sets * shape->ways;
    fprintf(output,
            "{\"shape\": \"%s\", \"block\": %u, \"sets\": %" PRIu64 ", \"ways\": %u, \"bytes\": "
            "%" PRIu64 ", \"misses\": %" PRIu64 ", \"write_backs\": %" PRIu64 ", ",
            shape->name, shape->block_bytes, shape->sets, shape->ways, blocks * shape->block_bytes,
            counts->misses, counts->write_backs);
    print_causes(output, block_job_of(jobs, shape->block_bytes), blocks, counts->misses);
    fputs(", ", output);
    print_misses_of_classes(output, counts->misses_of_class);
    print_row(output, "misses_by_set", counts->misses_of_set, shape->sets);
    print_functions(output, counts);
    fputs("}", output);
}

static void print_all(FILE *output, const struct jobs *jobs)
{
    struct class_totals totals = totals_of(jobs->blocks[0].caches);
    fputs("{", output);
    print_head(output, "allotrope.simulate.caches/1", &totals);
    print_blocks(output, jobs);
    print_results(output, jobs);
    fputs(",\n\"shapes\": [", output);
    for (size_t i = 0; i < jobs->options->shape_count; i++) {
        fputs(i > 0 ? ",\n" : "\n", output);
        print_shape(output, jobs, &jobs->shapes[i]);
    }
    fputs("]}\n", output);
}

static bool make_jobs(struct jobs *jobs)
{
    const struct simulate_options *options = jobs->options;
    bool made = true;
    for (size_t i = 0; i < options->shape_count; i++) {
        jobs->shapes[i].shape = options->shapes[i];
        jobs->shapes[i].cache = shape_cache_new(&options->shapes[i], options->straddles_once);
        made = made && jobs->shapes[i].cache != NULL;
        add_simulation(jobs, feed_shape, &jobs->shapes[i]);
    }
    for (size_t i = 0; i < options->size_count; i++)
        made = make_block_job(jobs, &jobs->blocks[i], (unsigned)options->sizes[i]) && made;
    return made;
}

/* What went wrong in the simulators, NULL when nothing did. */
static const char *failure_of(const struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->options->size_count; i++) {
        const struct block_job *job = &jobs->blocks[i];
        if (caches_error(job->caches) != NULL)
            return caches_error(job->caches);
        if (job->blocks != NULL && pages_error(job->blocks) != NULL)
            return pages_error(job->blocks);
    }
    for (size_t i = 0; i < jobs->simulation_count; i++)
        if (jobs->simulations[i].failed)
            return "memory is short";
    return NULL;
}

const char *simulate_caches(struct reference_source *source, const struct simulate_options *options,
                            FILE *output)
{
    /* Static: a failure's text may belong to a simulator, which lives until the program ends. */
    static struct jobs jobs;
    jobs.options = options;
    if (!make_jobs(&jobs) || simulate_rounds(source, options->count, jobs.simulations,
                                             jobs.simulation_count, options->threads) < 0)
        return "memory is short";
    if (failure_of(&jobs) != NULL)
        return failure_of(&jobs);
    for (size_t i = 0; i < options->size_count; i++) {
        if (jobs.blocks[i].exact != NULL)
            compare(&jobs.blocks[i]);
        if (jobs.blocks[i].blocks != NULL && !sum_capacity(&jobs.blocks[i]))
            return "memory is short";
    }
    print_all(output, &jobs);
    return NULL;
}
