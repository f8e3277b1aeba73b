/* SPDX-License-Identifier: MIT
 *
 * output.c: numbers, fixed words, and names of functions.
 */
#include "analysis/simulate/output.h"

#include <stdio.h>

#include "trace/format/names.h"

struct reference_totals class_totals_sum(const struct class_totals *totals)
{
    struct reference_totals sum = {0};
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        sum.references += totals->of[class].references;
        sum.stores += totals->of[class].stores;
        sum.touches += totals->of[class].touches;
    }
    return sum;
}

const char *class_name(unsigned class, char *room)
{
    const char *name = trace_class_name(class);
    if (name)
        return name;
    snprintf(room, CLASS_NAME_BYTES, "class %u", class);
    return room;
}

void put_class(struct json *json, unsigned class)
{
    char room[CLASS_NAME_BYTES];
    json_text(json, "class", class_name(class, room));
}

static void put_counts(struct json *json, struct reference_totals totals)
{
    json_number(json, "references", totals.references);
    json_number(json, "loads", totals.references - totals.stores);
    json_number(json, "stores", totals.stores);
}

static void put_classes(struct json *json, const struct class_totals *totals)
{
    json_open_list(json, "classes");
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        if (totals->of[class].references == 0)
            continue;
        json_open(json, NULL);
        put_class(json, class);
        put_counts(json, totals->of[class]);
        json_close(json);
    }
    json_close_list(json);
}

void put_head(struct json *json, const char *schema, const struct class_totals *totals,
              const struct reference_source *source)
{
    int threaded = reference_source_threaded(source);
    json_text(json, "schema", schema);
    put_counts(json, class_totals_sum(totals));
    json_bool(json, "whole", !reference_source_error(source));
    if (threaded < 0)
        json_null(json, "threaded");
    else
        json_bool(json, "threaded", threaded);
    put_classes(json, totals);
}
