/* SPDX-License-Identifier: MIT
 *
 * parts.h: one trace in parts of time, several at once, made one exactly.
 *
 * Each part is read by a reader of its own and simulated by a thread of its own, which begins with
 * empty memories. What that gets wrong is put right when the parts are joined in their order
 * (lru_stack_join.c). A part may also be another process's, on another machine: it is written to a
 * file and joined from there.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_PARTS_H
#define ALLOTROPE_ANALYSIS_SIMULATE_PARTS_H

#include "analysis/simulate/options.h"
#include "analysis/simulate/reference_source.h"
#include "analysis/simulate/simulate_pages.h"

/* Simulates pages in options->jobs parts. first: the source of the first one, which no one has
 * read; in the end it and the filter in `options` tell of all. Returns the jobs, finished, NULL
 * when there is no result; *error is then one line that says why. Ends the program where the source
 * cannot be read in parts. */
struct page_jobs *parts_simulate(struct reference_source *first, struct simulate_options *options,
                                 const char **error);

/* How many parts of options->jobs have references. Ends the program as parts_simulate(). */
uint64_t parts_count(struct reference_source *source, const struct simulate_options *options);
/* Simulates part options->part alone, and puts where the output goes what parts_join() needs of it.
 * Returns NULL, or one line that says why it is not there. Ends the program as parts_simulate(). */
const char *parts_write(struct reference_source *source, struct simulate_options *options);
/* As parts_simulate(), of parts_count() parts that stand in a file, options->join, one behind the
 * other. Nothing has been read of the source, and nothing is. */
struct page_jobs *parts_join(struct reference_source *source, struct simulate_options *options,
                             const char **error);

#endif
