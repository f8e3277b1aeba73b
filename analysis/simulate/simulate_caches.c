/* SPDX-License-Identifier: MIT
 *
 * simulate_caches.c: for each block size a simulator of all caches and, where causes are asked
 * for, an LRU stack over blocks: it knows what a fully associative cache of any size misses.
 *
 * Causes, after Hill and Smith 1989: cold misses are first touches of a block; capacity misses
 * are what a fully associative LRU cache of the same size misses beyond those; conflict misses
 * are the rest. They are negative where limited associativity does better than LRU over all, as
 * it can on loops slightly larger than the cache.
 */
#include "analysis/simulate/simulate_caches.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/simulate/output.h"
#include "analysis/simulate/region_map.h"
#include "analysis/simulate/simulators/caches.h"
#include "analysis/simulate/simulators/pages.h"
#include "analysis/simulate/simulators/shapes.h"
#include "trace/format/write.h"

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

struct cache_jobs {
    const struct simulate_options *options;
    struct block_job blocks[SIMULATE_SIZES];
    struct shape_job shapes[SIMULATE_SHAPES];
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
    if (job->exact) {
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

static bool make_block_job(const struct simulate_options *options, struct block_job *job,
                           struct simulate_block block, struct simulations *simulations)
{
    struct caches_options whole = {block.bytes, block.ways, true, UINT32_MAX};
    struct caches_options part = whole;
    if (options->sampled)
        part.slices = choose_slices(options->slices);
    job->block_bytes = block.bytes;
    job->ways = block.ways;
    job->left = options->error_over;
    job->scale = options->sampled ? (double)CACHES_SLICES / options->slices : 1;
    job->caches = caches_new(&part);
    job->exact = options->sampled ? caches_new(&whole) : NULL;
    if (options->causes) {
        struct pages_options blocks = {block.bytes, false};
        job->blocks = pages_new(&blocks);
        simulations_add(simulations, feed_blocks, job);
    }
    simulations_add(simulations, feed_caches, job);
    return job->caches && (job->exact != NULL) == options->sampled &&
           (job->blocks != NULL) == options->causes;
}

/* Sums up what fully associative caches of every size miss beyond cold misses. */
static bool sum_capacity(struct block_job *job)
{
    struct lru_histogram sum = {0};
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        const struct lru_histogram *one = pages_histogram(job->blocks, class);
        if (!one || !lru_histogram_reach(&sum, one->length - 1))
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
    if (!job || !job->blocks) {
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

static void print_blocks(FILE *output, const struct cache_jobs *jobs)
{
    fputs(", \"blocks\": [", output);
    for (size_t i = 0; i < jobs->options->block_count; i++) {
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

static void print_results(FILE *output, const struct cache_jobs *jobs)
{
    fputs(",\n\"results\": [", output);
    const char *separator = "";
    for (size_t i = 0; i < jobs->options->block_count; i++)
        for (unsigned sets = CACHES_SMALLEST_SETS_LOG2; sets <= CACHES_LARGEST_SETS_LOG2; sets++)
            for (unsigned ways = 1; ways <= jobs->blocks[i].ways; ways++) {
                fprintf(output, "%s\n", separator);
                print_cache(output, &jobs->blocks[i], sets, ways);
                separator = ",";
            }
    fputs("]", output);
}

static const struct block_job *block_job_of(const struct cache_jobs *jobs, unsigned block_bytes)
{
    for (size_t i = 0; i < jobs->options->block_count; i++)
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

/* Prints the functions that missed. */
static void print_functions(FILE *output, const struct shape_counts *counts,
                            const struct reference_source *source)
{
    fputs(",\n\"misses_by_function\": [", output);
    const char *separator = "";
    for (size_t function = 0; function < counts->functions; function++)
        if (counts->misses_of_function[function] != 0) {
            fprintf(output, "%s{\"function\": %zu, \"name\": ", separator, function);
            const char *name = reference_source_function_name(source, (uint32_t)function);
            if (name)
                print_json_string(output, name);
            else
                fputs("null", output);
            fprintf(output, ", \"misses\": %" PRIu64 "}", counts->misses_of_function[function]);
            separator = ", ";
        }
    fputs("]", output);
}

static void print_regions(FILE *output, const struct shape_counts *counts,
                          const struct reference_source *source)
{
    if (!reference_source_has_regions(source)) {
        fputs(",\n\"misses_by_region\": null", output);
        return;
    }
    fputs(",\n\"misses_by_region\": [", output);
    const char *separator = "";
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
        for (unsigned region = 0; region < REGION_CLASSES; region++) {
            if (counts->misses_of_region[class][region] == 0)
                continue;
            fprintf(output, "%s{\"class\": ", separator);
            print_class_name(output, class);
            fprintf(output, ", \"region\": \"%s\", \"misses\": %" PRIu64 "}",
                    region_class_name(region), counts->misses_of_region[class][region]);
            separator = ", ";
        }
    fputs("]", output);
}

static void print_shape(FILE *output, const struct cache_jobs *jobs, const struct shape_job *job,
                        const struct reference_source *source)
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
    print_regions(output, counts, source);
    print_row(output, "misses_by_set", counts->misses_of_set, shape->sets);
    print_functions(output, counts, source);
    fputs("}", output);
}

void cache_jobs_print(FILE *output, struct cache_jobs *jobs, const struct reference_source *source)
{
    struct class_totals totals = totals_of(jobs->blocks[0].caches);
    fputs("{", output);
    print_head(output, "allotrope.simulate.caches/1", &totals, source);
    print_blocks(output, jobs);
    print_results(output, jobs);
    fputs(",\n\"shapes\": [", output);
    for (size_t i = 0; i < jobs->options->shape_count; i++) {
        fputs(i > 0 ? ",\n" : "\n", output);
        print_shape(output, jobs, &jobs->shapes[i], source);
    }
    fputs("]}", output);
}

struct cache_jobs *cache_jobs_make(const struct simulate_options *options,
                                   struct simulations *simulations)
{
    struct cache_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return NULL;
    jobs->options = options;
    for (size_t i = 0; i < options->shape_count; i++) {
        struct shape_job *job = &jobs->shapes[i];
        job->shape = options->shapes[i];
        job->cache = shape_cache_new(&job->shape, options->straddles_once);
        if (!job->cache)
            return NULL;
        simulations_add(simulations, feed_shape, job);
        simulations->with_regions = true;
    }
    for (size_t i = 0; i < options->block_count; i++)
        if (!make_block_job(options, &jobs->blocks[i], options->blocks[i], simulations))
            return NULL;
    return jobs;
}

const char *cache_jobs_finish(struct cache_jobs *jobs)
{
    for (size_t i = 0; i < jobs->options->block_count; i++) {
        struct block_job *job = &jobs->blocks[i];
        if (caches_error(job->caches))
            return caches_error(job->caches);
        if (job->exact)
            compare(job);
        if (job->blocks && pages_error(job->blocks))
            return pages_error(job->blocks);
        if (job->blocks && !sum_capacity(job))
            return "memory is short";
    }
    return NULL;
}
