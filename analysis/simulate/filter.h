/* SPDX-License-Identifier: MIT
 *
 * filter.h: which references are simulated: by thread, class, region, function and number.
 *
 * A reference that does not pass is as if it had not happened: it takes no place in any cache. Of
 * each kind of criterion that is given, one must hold. A filter notes what it has met, so that it
 * can say why nothing was left.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_FILTER_H
#define ALLOTROPE_ANALYSIS_SIMULATE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/simulate/simulators/reference.h"

enum { FILTER_THREADS = 64, FILTER_PATTERNS = 16, FILTER_NAMES = 8 };

struct filter {
    uint64_t from, to; /* numbers of references, counted from 0, `to` not included */
    uint32_t threads[FILTER_THREADS];
    size_t thread_count;                           /* 0: of any */
    uint32_t classes;                              /* a bit for each enum trace_class; 0: any */
    uint32_t regions;                              /* a bit for each enum region_class; 0: any */
    const char *functions_wanted[FILTER_PATTERNS]; /* patterns as the shell has them */
    size_t function_count;                         /* 0: any */

    uint64_t references, passed;
    /* What has been met, among the numbers asked for. */
    uint32_t threads_met[FILTER_THREADS];
    size_t threads_met_count;
    uint32_t classes_met, regions_met;
    uint8_t *function_answers; /* by number: enum answer */
    size_t functions;
    bool function_matched;
};

/* One that lets everything pass. */
#define FILTER_NONE ((struct filter){.to = UINT64_MAX})

/* Whether anything is asked for. */
bool filter_is_used(const struct filter *filter);
/* Whether anything beside numbers is: what a source that tells nothing else cannot answer. */
bool filter_needs_attributes(const struct filter *filter);

/* What is to be known of a reference. */
struct filter_subject {
    uint64_t number; /* from the start of the input */
    uint32_t thread;
    uint8_t region;       /* enum region_class; 0 where it is not known */
    const char *function; /* only asked for where filter_knows() says no; NULL: has no name */
};

/* Whether the filter has no need of the name of the function of that number. */
bool filter_knows(const struct filter *filter, uint32_t function);
/* False when memory is short. */
bool filter_learn(struct filter *filter, uint32_t function, const char *name);
/* The function of the reference must be known. */
bool filter_passes(struct filter *filter, const struct reference *reference,
                   const struct filter_subject *subject);

/* Adds what `later` has met, which was asked the same about the references behind. */
void filter_join(struct filter *filter, const struct filter *later);

/* To a file, and back into one that is asked nothing, for filter_join(). False: errno says why. */
bool filter_write_met(const struct filter *filter, FILE *file);
bool filter_read_met(struct filter *filter, FILE *file);

/* Why nothing passed, to be called then: one line, which belongs to the filter's caller's `text` of
 * `room` bytes. */
void filter_explain(const struct filter *filter, char *text, size_t room);

#endif
