/* SPDX-License-Identifier: MIT
 *
 * simulate_caches.c: for each block size a simulator of all caches and, where causes are asked
 * for, an LRU stack over blocks: it knows what a fully associative cache of any size misses. With
 * --jobs several simulators share the sets of a block size: each takes a group of slices. With
 * --part there is one of them.
 *
 * A TLB is a cache whose blocks are pages, so TLBs are simulated by the same two: with few sets,
 * and always with the LRU stack, since many TLBs are fully associative.
 *
 * Causes, after Hill and Smith 1989: cold misses are first touches of a block; capacity misses
 * are what a fully associative LRU cache of the same size misses beyond those; conflict misses
 * are the rest. They are negative where limited associativity does better than LRU over all, as
 * it can on loops slightly larger than the cache.
 */
#include "analysis/simulate/simulate_caches.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/simulate/output.h"
#include "analysis/simulate/region_map.h"
#include "analysis/simulate/sample.h"
#include "analysis/simulate/simulators/caches.h"
#include "analysis/simulate/simulators/pages.h"
#include "analysis/simulate/simulators/shapes.h"
#include "trace/base/array.h"

/* Each of a block size's simulators has room for all sets, so there are not to be too many. */
enum { GROUPS_MOST = 8 };

struct block_job {
    uint64_t block_bytes;
    unsigned ways; /* the largest associativity */
    unsigned fewest_sets_log2;
    struct caches *groups[GROUPS_MOST]; /* of disjoint slices, all fed the same */
    unsigned group_count;
    struct sample sample;
    double scale;         /* of a sample */
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
    struct block_job blocks[SIMULATE_SIZES]; /* of caches */
    struct block_job tlbs[SIMULATE_SIZES];
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

/* The slices of a group: whole sets of every cache. */
static uint32_t slices_of_group(unsigned group, unsigned groups, unsigned fewest_sets_log2)
{
    uint32_t slices = 0;
    for (unsigned slice = 0; slice < CACHES_SLICES; slice++)
        if ((slice & ((1U << fewest_sets_log2) - 1)) % groups == group)
            slices |= 1U << slice;
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

static uint64_t misses_of_class(const struct block_job *job, unsigned sets_log2, unsigned ways,
                                unsigned class)
{
    uint64_t sum = 0;
    for (unsigned group = 0; group < job->group_count; group++)
        sum += caches_misses(job->groups[group], sets_log2, ways, class);
    return sum;
}

static uint64_t write_backs_of(const struct block_job *job, unsigned sets_log2, unsigned ways)
{
    uint64_t sum = 0;
    for (unsigned group = 0; group < job->group_count; group++)
        sum += caches_write_backs(job->groups[group], sets_log2, ways);
    return sum;
}

static bool compare(void *argument)
{
    struct block_job *job = argument;
    struct caches *exact = job->sample.exact;
    struct class_totals totals = totals_of(exact);
    struct reference_totals sum = class_totals_sum(&totals);
    unsigned fewest = job->fewest_sets_log2;
    for (unsigned sets = fewest; sets < fewest + CACHES_LEVELS; sets++)
        for (unsigned ways = 1; ways <= job->ways; ways++)
            sample_error_add(&job->sample.error,
                             job->scale * (double)misses_of_all(job->groups[0], sets, ways),
                             (double)misses_of_all(exact, sets, ways), (double)sum.touches);
    job->sample.error.references = sum.references;
    caches_free(exact);
    job->sample.exact = NULL;
    return true;
}

static bool feed_caches(void *caches, const struct references *references)
{
    return caches_feed(caches, references);
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

static unsigned groups_most(unsigned fewest_sets_log2)
{
    unsigned most = 1U << fewest_sets_log2;
    return most < GROUPS_MOST ? most : GROUPS_MOST;
}

unsigned cache_parts_most(const struct simulate_options *options)
{
    unsigned caches = options->blocks.count > 0 ? groups_most(CACHES_FEWEST_SETS_LOG2) : 0;
    unsigned tlbs = options->tlbs.count > 0 ? groups_most(TLBS_FEWEST_SETS_LOG2) : 0;
    unsigned stacks = 0;
    for (size_t i = 0; i < options->blocks.count; i++)
        stacks += options->blocks.list[i].with_stack;
    for (size_t i = 0; i < options->tlbs.count; i++)
        stacks += options->tlbs.list[i].with_stack;
    return (caches > tlbs ? caches : tlbs) + stacks;
}

/* Simulators that share the sets; a group that there is not has none of them. False when memory is
 * short. */
static bool make_groups(const struct simulate_options *options, struct block_job *job,
                        struct caches_options whole, struct simulations *simulations)
{
    unsigned most = groups_most(whole.fewest_sets_log2);
    unsigned groups = options->jobs < most ? options->jobs : most;
    unsigned first = options->part < 0 ? 0 : (unsigned)options->part;
    job->group_count = options->part < 0 ? groups : 1;
    for (unsigned i = 0; i < job->group_count; i++) {
        struct caches_options part = whole;
        part.slices = slices_of_group(first + i, groups, whole.fewest_sets_log2);
        job->groups[i] = caches_new(&part);
        if (!job->groups[i])
            return false;
        simulations_add(simulations, feed_caches, job->groups[i]);
    }
    return true;
}

/* One simulator, which may be of a sample. False when memory is short. */
static bool make_sample(const struct simulate_options *options, struct block_job *job,
                        struct caches_options whole, struct simulations *simulations)
{
    struct caches_options part = whole;
    if (options->sampled)
        part.slices = choose_slices(options->slices);
    job->groups[0] = caches_new(&part);
    job->group_count = 1;
    job->sample = (struct sample){
        .feed = feed_caches,
        .compare = compare,
        .job = job,
        .sampled = job->groups[0],
        .exact = options->sampled ? caches_new(&whole) : NULL,
        .left = options->error_over,
    };
    simulations_add(simulations, sample_feed, &job->sample);
    return job->groups[0] && (job->sample.exact || !options->sampled);
}

/* whole: the caches, where nothing is sampled. causes: with an LRU stack. */
static bool make_block_job(const struct simulate_options *options, struct block_job *job,
                           struct caches_options whole, bool causes,
                           struct simulations *simulations)
{
    job->block_bytes = whole.block_bytes;
    job->ways = whole.ways;
    job->fewest_sets_log2 = whole.fewest_sets_log2;
    job->scale = options->sampled ? (double)CACHES_SLICES / options->slices : 1;
    if (causes) {
        struct pages_options blocks = {whole.block_bytes, false};
        job->blocks = pages_new(&blocks);
        simulations_add(simulations, feed_blocks, job);
    }
    bool made = options->jobs > 0 ? make_groups(options, job, whole, simulations)
                                  : make_sample(options, job, whole, simulations);
    return made && (job->blocks || !causes);
}

/* Sums up what fully associative caches of every size miss beyond cold misses. */
static bool sum_capacity(struct block_job *job)
{
    struct lru_histogram sum;
    if (!pages_sum_histograms(job->blocks, &sum))
        return false;
    job->cold = sum.cold;
    for (size_t size = sum.length - 1; size-- > 0;)
        sum.of_distance[size] += sum.of_distance[size + 1];
    job->capacity = sum.of_distance;
    job->sizes = sum.length;
    return true;
}

/* What a fully associative cache of so many blocks misses beyond cold misses. */
static uint64_t capacity_misses(const struct block_job *job, uint64_t blocks)
{
    return blocks < job->sizes ? job->capacity[blocks] : 0;
}

/* "cold", "capacity" and "conflict" of a cache of `blocks` blocks. */
static void put_causes(struct json *json, const struct block_job *job, uint64_t blocks,
                       uint64_t misses)
{
    if (!job || !job->blocks) {
        json_null(json, "cold");
        json_null(json, "capacity");
        json_null(json, "conflict");
        return;
    }
    uint64_t capacity = capacity_misses(job, blocks);
    json_number(json, "cold", job->cold);
    json_number(json, "capacity", capacity);
    json_integer(json, "conflict", (int64_t)(misses - job->cold - capacity));
}

static void put_misses_by_class(struct json *json, const uint64_t *misses)
{
    char room[CLASS_NAME_BYTES];
    json_open(json, "misses_by_class");
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
        if (misses[class] != 0)
            json_number(json, class_name(class, room), misses[class]);
    json_close(json);
}

static uint64_t scaled(const struct block_job *job, uint64_t count)
{
    return job->scale == 1 ? count : (uint64_t)((double)count * job->scale + 0.5);
}

static void put_cache(struct json *json, const struct block_job *job, unsigned sets_log2,
                      unsigned ways)
{
    uint64_t of_class[REFERENCE_CLASSES], misses = 0;
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        of_class[class] = scaled(job, misses_of_class(job, sets_log2, ways, class));
        misses += of_class[class];
    }
    uint64_t blocks = (uint64_t)ways << sets_log2;
    json_open(json, NULL);
    json_number(json, "block", job->block_bytes);
    json_number(json, "sets", 1ULL << sets_log2);
    json_number(json, "ways", ways);
    json_number(json, "bytes", blocks * job->block_bytes);
    json_number(json, "misses", misses);
    json_number(json, "write_backs", scaled(job, write_backs_of(job, sets_log2, ways)));
    put_causes(json, job, blocks, misses);
    put_misses_by_class(json, of_class);
    json_close(json);
}

static void put_block(struct json *json, const struct block_job *job,
                      const struct simulate_options *options)
{
    struct class_totals totals = totals_of(job->groups[0]);
    json_open(json, NULL);
    json_number(json, "block", job->block_bytes);
    json_number(json, "touches", class_totals_sum(&totals).touches);
    if (options->sampled) {
        json_open(json, "sample");
        json_number(json, "slices", options->slices);
        json_number(json, "of", CACHES_SLICES);
        put_sample_error(json, &job->sample.error);
        json_close(json);
    } else {
        json_null(json, "sample");
    }
    json_close(json);
}

static void put_results(struct json *json, const struct block_job *job)
{
    unsigned fewest = job->fewest_sets_log2;
    for (unsigned sets = fewest; sets < fewest + CACHES_LEVELS; sets++)
        for (unsigned ways = 1; ways <= job->ways; ways++) {
            json_new_line(json);
            put_cache(json, job, sets, ways);
        }
}

/* The misses of a fully associative cache of every size: a point wherever one block more saves
 * misses, as in the curve of a page size. */
static void put_fully_associative(struct json *json, const struct block_job *job)
{
    json_new_line(json);
    json_open(json, NULL);
    json_number(json, "block", job->block_bytes);
    json_number(json, "cold", job->cold);
    json_open_list(json, "curve");
    /* A touch at the last distance is a hit with as many blocks as there are sizes. */
    for (size_t blocks = 1; blocks <= job->sizes; blocks++) {
        uint64_t capacity = capacity_misses(job, blocks);
        if (blocks > 1 && capacity == capacity_misses(job, blocks - 1))
            continue;
        json_open(json, NULL);
        json_number(json, "blocks", blocks);
        json_number(json, "misses", job->cold + capacity);
        json_close(json);
    }
    json_close_list(json);
    json_close(json);
}

static const struct block_job *block_job_of(const struct cache_jobs *jobs, uint64_t block_bytes)
{
    for (size_t i = 0; i < jobs->options->blocks.count; i++)
        if (jobs->blocks[i].block_bytes == block_bytes)
            return &jobs->blocks[i];
    for (size_t i = 0; i < jobs->options->tlbs.count; i++)
        if (jobs->tlbs[i].block_bytes == block_bytes)
            return &jobs->tlbs[i];
    return NULL;
}

static void put_misses_by_set(struct json *json, const struct shape_counts *counts, uint64_t sets)
{
    json_new_line(json);
    json_open_list(json, "misses_by_set");
    for (uint64_t set = 0; set < sets; set++)
        json_number(json, NULL, counts->misses_of_set[set]);
    json_close_list(json);
}

/* As many counts as there are windows of references. */
static void put_series(struct json *json, const char *key, struct series *series,
                       const struct series *references)
{
    series_fold_to(series, references->doublings);
    json_new_line(json);
    json_open_list(json, key);
    for (size_t window = 0; window < references->length; window++)
        json_number(json, NULL, series->counts[window]);
    json_close_list(json);
}

/* The misses of each function, of which the simulator may have counted those of its instructions.
 * Returns an array of *count, NULL when memory is short. */
static uint64_t *misses_of_functions(const struct shape_counts *counts,
                                     const struct reference_source *source, size_t *count)
{
    uint64_t *sums = NULL;
    size_t capacity = 0;
    *count = 0;
    for (size_t i = 0; i < counts->functions; i++) {
        const struct instruction *instruction = reference_source_instruction(source, (uint32_t)i);
        size_t function = instruction ? instruction->function : i;
        if (!array_reserve(&sums, &capacity, function, sizeof *sums)) {
            free(sums);
            return NULL;
        }
        sums[function] += counts->misses_of_function[i];
        *count = function >= *count ? function + 1 : *count;
    }
    return sums;
}

/* The functions that missed. */
static void put_misses_by_function(struct json *json, const struct shape_counts *counts,
                                   const struct reference_source *source)
{
    size_t functions;
    uint64_t *misses = misses_of_functions(counts, source, &functions);
    json_new_line(json);
    json_open_list(json, "misses_by_function");
    for (size_t function = 0; misses && function < functions; function++) {
        if (misses[function] == 0)
            continue;
        json_open(json, NULL);
        json_number(json, "function", function);
        json_bytes(json, "name", reference_source_name_of(source, (uint32_t)function));
        json_number(json, "misses", misses[function]);
        json_close(json);
    }
    json_close_list(json);
    free(misses);
}

/* Instructions that missed, of which those are told that did so most. */
static int more_misses_first(const void *first, const void *second, void *misses)
{
    uint64_t one = ((const uint64_t *)misses)[*(const uint32_t *)first];
    uint64_t other = ((const uint64_t *)misses)[*(const uint32_t *)second];
    return (one < other) - (one > other);
}

static void put_misses_by_instruction(struct json *json, const struct shape_counts *counts,
                                      const struct reference_source *source)
{
    enum { TOLD = 4096 };
    uint32_t *order = calloc(counts->functions + 1, sizeof *order);
    size_t count = 0;
    for (size_t i = 0; order && i < counts->functions; i++)
        if (counts->misses_of_function[i] > 0)
            order[count++] = (uint32_t)i;
    if (order)
        qsort_r(order, count, sizeof *order, more_misses_first, (void *)counts->misses_of_function);
    json_new_line(json);
    json_open_list(json, "misses_by_instruction");
    for (size_t i = 0; i < count && i < TOLD; i++) {
        const struct instruction *instruction = reference_source_instruction(source, order[i]);
        json_open(json, NULL);
        json_number(json, "address", instruction->address);
        json_number(json, "function", instruction->function);
        json_number(json, "misses", counts->misses_of_function[order[i]]);
        json_close(json);
    }
    json_close_list(json);
    free(order);
}

/* Where files were mapped, which instructions lie in. */
static void put_files(struct json *json, const struct reference_source *source)
{
    const struct range_map *files = reference_source_files(source);
    json_new_line(json);
    json_open_list(json, "files");
    for (size_t i = 0; i < files->count; i++) {
        json_open(json, NULL);
        json_number(json, "start", files->ranges[i].start);
        json_number(json, "end", files->ranges[i].end);
        json_bytes(json, "path", reference_source_file(source, files->ranges[i].what));
        json_close(json);
    }
    json_close_list(json);
}

static void put_misses_by_region(struct json *json, const struct shape_counts *counts,
                                 const struct reference_source *source)
{
    json_new_line(json);
    if (!reference_source_has_regions(source)) {
        json_null(json, "misses_by_region");
        return;
    }
    json_open_list(json, "misses_by_region");
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
        for (unsigned region = 0; region < REGION_CLASSES; region++) {
            if (counts->misses_of_region[class][region] == 0)
                continue;
            json_open(json, NULL);
            put_class(json, class);
            json_text(json, "region", region_class_name(region));
            json_number(json, "misses", counts->misses_of_region[class][region]);
            json_close(json);
        }
    json_close_list(json);
}

static void put_shape(struct json *json, const struct cache_jobs *jobs, const struct shape_job *job,
                      struct reference_source *source)
{
    const struct shape *shape = &job->shape;
    const struct shape_counts *counts = shape_cache_counts(job->cache);
    uint64_t blocks = shape->sets * shape->ways;
    json_open(json, NULL);
    json_text(json, "shape", shape->name);
    json_number(json, "block", shape->block_bytes);
    json_number(json, "sets", shape->sets);
    json_number(json, "ways", shape->ways);
    json_number(json, "bytes", blocks * shape->block_bytes);
    json_number(json, "misses", counts->misses);
    json_number(json, "write_backs", counts->write_backs);
    put_causes(json, block_job_of(jobs, shape->block_bytes), blocks, counts->misses);
    put_misses_by_class(json, counts->misses_of_class);
    put_misses_by_region(json, counts, source);
    put_misses_by_set(json, counts, shape->sets);
    put_series(json, "misses_by_window", shape_cache_windows(job->cache),
               reference_source_windows(source));
    put_misses_by_function(json, counts, source);
    if (jobs->options->instructions)
        put_misses_by_instruction(json, counts, source);
    json_close(json);
}

/* Opens the object; what all jobs of a kind have to tell. */
static void put_jobs(struct json *json, const char *key, const char *schema,
                     const struct block_job *list, size_t count,
                     const struct simulate_options *options, const struct reference_source *source)
{
    struct class_totals totals = totals_of(list[0].groups[0]);
    json_open(json, key);
    put_head(json, schema, &totals, source);
    json_open_list(json, "blocks");
    for (size_t i = 0; i < count; i++) {
        json_new_line(json);
        put_block(json, &list[i], options);
    }
    json_close_list(json);
    json_new_line(json);
    json_open_list(json, "results");
    for (size_t i = 0; i < count; i++)
        put_results(json, &list[i]);
    json_close_list(json);
}

/* "windows": what the windows of the shapes are, and the references in each. */
static void put_windows(struct json *json, const struct cache_jobs *jobs,
                        struct reference_source *source)
{
    if (jobs->options->shape_count == 0) {
        json_null(json, "windows");
        return;
    }
    struct series *references = reference_source_windows(source);
    bool by_bytes = reference_source_window_clock(source) == WINDOW_ALLOCATED_BYTES;
    json_open(json, "windows");
    json_text(json, "clock", by_bytes ? "allocated bytes" : "references");
    json_number(json, "width", reference_source_window_width(source) << references->doublings);
    put_series(json, "references", references, references);
    json_close(json);
}

static void put_shapes(struct json *json, const struct cache_jobs *jobs,
                       struct reference_source *source)
{
    json_new_line(json);
    put_windows(json, jobs, source);
    if (jobs->options->instructions)
        put_files(json, source);
    json_new_line(json);
    json_open_list(json, "shapes");
    for (size_t i = 0; i < jobs->options->shape_count; i++) {
        json_new_line(json);
        put_shape(json, jobs, &jobs->shapes[i], source);
    }
    json_close_list(json);
}

void cache_jobs_put(struct json *json, const char *key, struct cache_jobs *jobs,
                    struct reference_source *source)
{
    const struct simulate_options *options = jobs->options;
    put_jobs(json, key, "allotrope.simulate.caches/1", jobs->blocks, options->blocks.count, options,
             source);
    put_shapes(json, jobs, source);
    json_close(json);
}

void cache_jobs_put_tlbs(struct json *json, const char *key, struct cache_jobs *jobs,
                         struct reference_source *source)
{
    const struct simulate_options *options = jobs->options;
    put_jobs(json, key, "allotrope.simulate.tlb/1", jobs->tlbs, options->tlbs.count, options,
             source);
    json_new_line(json);
    json_open_list(json, "fully_associative");
    for (size_t i = 0; i < options->tlbs.count; i++)
        put_fully_associative(json, &jobs->tlbs[i]);
    json_close_list(json);
    if (options->blocks.count == 0)
        put_shapes(json, jobs, source);
    json_close(json);
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
        simulations->with_windows = true;
    }
    for (size_t i = 0; i < options->blocks.count; i++) {
        const struct simulate_block *block = &options->blocks.list[i];
        struct caches_options caches = {block->bytes, block->ways, true, UINT32_MAX,
                                        CACHES_FEWEST_SETS_LOG2};
        if (!make_block_job(options, &jobs->blocks[i], caches, block->with_stack, simulations))
            return NULL;
    }
    for (size_t i = 0; i < options->tlbs.count; i++) {
        const struct simulate_block *page = &options->tlbs.list[i];
        struct caches_options tlbs = {page->bytes, page->ways, true, UINT32_MAX,
                                      TLBS_FEWEST_SETS_LOG2};
        if (!make_block_job(options, &jobs->tlbs[i], tlbs, page->with_stack, simulations))
            return NULL;
    }
    return jobs;
}

static const char *finish_job(struct block_job *job)
{
    for (unsigned group = 0; group < job->group_count; group++)
        if (caches_error(job->groups[group]))
            return caches_error(job->groups[group]);
    if (job->sample.exact)
        compare(job);
    if (job->blocks && pages_error(job->blocks))
        return pages_error(job->blocks);
    if (job->blocks && !sum_capacity(job))
        return "memory is short";
    return NULL;
}

const char *cache_jobs_finish(struct cache_jobs *jobs)
{
    const char *error = NULL;
    for (size_t i = 0; i < jobs->options->blocks.count && !error; i++)
        error = finish_job(&jobs->blocks[i]);
    for (size_t i = 0; i < jobs->options->tlbs.count && !error; i++)
        error = finish_job(&jobs->tlbs[i]);
    return error;
}
