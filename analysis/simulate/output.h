/* SPDX-License-Identifier: MIT
 *
 * output.h: the parts of the JSON that pages and caches share.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_OUTPUT_H
#define ALLOTROPE_ANALYSIS_SIMULATE_OUTPUT_H

#include "analysis/simulate/reference_source.h"
#include "trace/base/json.h"

/* A row of totals, one for each class. */
struct class_totals {
    struct reference_totals of[REFERENCE_CLASSES];
};

struct reference_totals class_totals_sum(const struct class_totals *totals);

enum { CLASS_NAME_BYTES = 24 };

/* What a class is called; `room`, of CLASS_NAME_BYTES, holds the name of one that has none. */
const char *class_name(unsigned class, char *room);

/* Members of the object that is open. */
void put_class(struct json *json, unsigned class);
/* "schema", "references", "loads", "stores", "whole", "threaded", "filter" and "classes". */
void put_head(struct json *json, const char *schema, const struct class_totals *totals,
              const struct reference_source *source);

#endif
