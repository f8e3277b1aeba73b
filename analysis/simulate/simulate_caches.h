/* SPDX-License-Identifier: MIT
 *
 * simulate_caches.h: misses and write-backs of caches and TLBs in a stream of references, as JSON.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATE_CACHES_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATE_CACHES_H

#include "analysis/simulate/options.h"
#include "analysis/simulate/queue.h"
#include "trace/base/json.h"

struct cache_jobs;

/* How many parts of --jobs have something to do: groups of sets, and LRU stacks. */
unsigned cache_parts_most(const struct simulate_options *options);
/* Makes the simulators that are asked for and adds them to the simulations. They live until the
 * program ends. Returns NULL when memory is short. */
struct cache_jobs *cache_jobs_make(const struct simulate_options *options,
                                   struct simulations *simulations);
/* To be called once the stream has ended. Returns NULL, or one line that says why there is no
 * result. */
const char *cache_jobs_finish(struct cache_jobs *jobs);
/* Write the result as an object, after finishing: of the caches and the shapes, and of the TLBs,
 * with the shapes where there are no caches. */
void cache_jobs_put(struct json *json, const char *key, struct cache_jobs *jobs,
                    struct reference_source *source);
void cache_jobs_put_tlbs(struct json *json, const char *key, struct cache_jobs *jobs,
                         struct reference_source *source);

#endif
