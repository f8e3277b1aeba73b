/* SPDX-License-Identifier: MIT
 *
 * output.c: numbers, fixed words, and names of functions.
 */
#include "analysis/simulate/output.h"

#include <stdio.h>

#include "analysis/simulate/region_map.h"
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

static void put_bits(struct json *json, const char *key, uint32_t bits, uint32_t count,
                     const char *(*name)(uint32_t))
{
    if (bits == 0)
        return;
    json_open_list(json, key);
    for (uint32_t i = 0; i < count; i++)
        if (bits >> i & 1)
            json_text(json, NULL, name(i));
    json_close_list(json);
}

static const char *region_name(uint32_t region)
{
    return region_class_name((enum region_class)region);
}

static void put_filter(struct json *json, const struct filter *filter)
{
    if (!filter) {
        json_null(json, "filter");
        return;
    }
    json_open(json, "filter");
    if (filter->thread_count > 0) {
        json_open_list(json, "thread");
        for (size_t i = 0; i < filter->thread_count; i++)
            json_number(json, NULL, filter->threads[i]);
        json_close_list(json);
    }
    put_bits(json, "class", filter->classes, TRACE_CLASSES, trace_class_name);
    put_bits(json, "region", filter->regions, REGION_CLASSES, region_name);
    if (filter->function_count > 0) {
        json_open_list(json, "function");
        for (size_t i = 0; i < filter->function_count; i++)
            json_bytes(json, NULL, filter->functions_wanted[i]);
        json_close_list(json);
    }
    if (filter->from > 0 || filter->to < UINT64_MAX) {
        json_open_list(json, "references");
        json_number(json, NULL, filter->from);
        if (filter->to < UINT64_MAX)
            json_number(json, NULL, filter->to);
        else
            json_null(json, NULL);
        json_close_list(json);
    }
    json_close(json);
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
    put_filter(json, reference_source_filtered_by(source));
    put_classes(json, totals);
}
