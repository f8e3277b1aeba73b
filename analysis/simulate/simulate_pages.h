/* SPDX-License-Identifier: MIT
 *
 * simulate_pages.h: page faults of a stream of references, as JSON.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATE_PAGES_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATE_PAGES_H

#include "analysis/simulate/options.h"
#include "analysis/simulate/queue.h"
#include "trace/base/json.h"

struct page_jobs;

/* Makes the simulators that are asked for and adds them to the simulations. They live until the
 * program ends. Returns NULL when memory is short. */
struct page_jobs *page_jobs_make(const struct simulate_options *options,
                                 struct simulations *simulations);
/* For the jobs of a later part of a stream, which page_jobs_join() is to take in. To be called
 * before anything is fed. */
void page_jobs_keep_first_touches(struct page_jobs *jobs);
/* Takes in the jobs of the part behind, which are of no more use then. Returns as
 * page_jobs_finish(). */
const char *page_jobs_join(struct page_jobs *jobs, struct page_jobs *later);
/* To a file, and back for page_jobs_join(): simulators that have kept first touches, which are of
 * no more use then. False and NULL when memory is short, or the file cannot be written or has none.
 */
bool page_jobs_write(struct page_jobs *jobs, FILE *file);
struct page_jobs *page_jobs_read(const struct simulate_options *options, FILE *file);
/* To be called once the stream has ended. Returns NULL, or one line that says why there is no
 * result. */
const char *page_jobs_finish(struct page_jobs *jobs);
/* Writes the result as an object, after finishing. */
void page_jobs_put(struct json *json, const char *key, struct page_jobs *jobs,
                   const struct reference_source *source);

#endif
