/* SPDX-License-Identifier: MIT
 *
 * output.h: the parts of the JSON that pages and caches share.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_OUTPUT_H
#define ALLOTROPE_ANALYSIS_SIMULATE_OUTPUT_H

#include <stdio.h>

#include "analysis/simulate/reference_source.h"

/* A row of totals, one for each class. */
struct class_totals {
    struct reference_totals of[REFERENCE_CLASSES];
};

/* Difference between a sample and the exact result, as shares of all touches. */
struct sample_error {
    uint64_t references; /* over which both were run */
    uint64_t compared;   /* results that were compared */
    double mean, largest;
};

/* Notes one difference between estimate and exact count. */
void sample_error_add(struct sample_error *error, double estimate, double exact, double touches);

struct reference_totals class_totals_sum(const struct class_totals *totals);

/* Prints a class's name as a JSON string. */
void print_class_name(FILE *output, unsigned class);
/* Prints `"schema": ..., "references": ..., "loads": ..., "stores": ..., "threaded": ...,
 * "classes": [...]`. */
void print_head(FILE *output, const char *schema, const struct class_totals *totals,
                const struct reference_source *source);
/* Prints `"error": {...}`, null where nothing was compared. */
void print_sample_error(FILE *output, const struct sample_error *error);

#endif
