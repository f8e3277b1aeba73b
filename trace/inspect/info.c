/* SPDX-License-Identifier: MIT
 *
 * info.c: what is in a trace, as JSON.
 */
#include <stdio.h>

#include "trace/base/json.h"
#include "trace/format/names.h"
#include "trace/inspect/census.h"
#include "trace/inspect/inspect.h"

static void put_classes(struct json *json, const char *key, const uint64_t *by_class)
{
    json_open(json, key);
    for (int i = 0; i < TRACE_CLASSES; i++)
        json_number(json, trace_class_name((uint32_t)i), by_class[i]);
    json_close(json);
}

static void put_totals(struct json *json, const char *key, const struct trace_totals *totals)
{
    json_open(json, key);
    json_number(json, "references", totals->references);
    json_number(json, "loads", totals->references - totals->stores);
    json_number(json, "stores", totals->stores);
    json_number(json, "instructions", totals->instructions);
    json_number(json, "superblocks", totals->superblocks);
    json_number(json, "events", totals->events);
    json_number(json, "allocated_bytes", totals->allocated_bytes);
    put_classes(json, "by_class", totals->by_class);
    json_close(json);
}

static void put_threads(struct json *json, const struct census *census)
{
    json_open_list(json, "threads");
    for (size_t i = 0; i < census->thread_count; i++) {
        json_open(json, NULL);
        json_number(json, "thread", census->threads[i].thread);
        json_number(json, "references", census->threads[i].references);
        json_close(json);
    }
    json_close_list(json);
}

static void put_events(struct json *json, const struct census *census)
{
    json_open(json, "events");
    for (int i = 1; i < TRACE_EVENT_TYPES; i++)
        if (census->event_counts[i] != 0)
            json_number(json, trace_event_name((uint32_t)i), census->event_counts[i]);
    json_close(json);
}

static const char *kind_name(uint32_t kind)
{
    switch (kind) {
    case CENSUS_NO_MAPPING:
        return "unmapped";
    case CENSUS_HEAP:
        return "heap";
    default:
        return trace_region_name(kind);
    }
}

static void put_regions(struct json *json, const struct census *census)
{
    json_open_list(json, "regions");
    for (size_t i = 0; i < census->account_count; i++) {
        const struct account *account = &census->accounts[i];
        json_open(json, NULL);
        json_text(json, "kind", kind_name(account->kind));
        json_text(json, "name", account->name);
        put_classes(json, "references", account->references);
        json_close(json);
    }
    json_close_list(json);
}

/* A damaged trace is described as far as it can be read; `error` says what is wrong with it. */
int inspect_info(struct trace_reader *reader, int64_t file_bytes)
{
    struct census census;
    struct trace_batch batch;
    int status;
    census_begin(&census);
    while ((status = trace_reader_next(reader, &batch)) > 0)
        census_count(&census, &batch);
    struct json json = {.output = stdout};
    json_open(&json, NULL);
    json_text(&json, "schema", "allotrope.trace.info/1");
    if (file_bytes < 0)
        json_null(&json, "bytes");
    else
        json_integer(&json, "bytes", file_bytes);
    json_raw(&json, "description", trace_reader_description(reader));
    put_totals(&json, "totals", trace_reader_totals(reader));
    if (trace_reader_whole(reader))
        put_totals(&json, "run", trace_reader_whole(reader));
    put_threads(&json, &census);
    put_events(&json, &census);
    put_regions(&json, &census);
    json_text(&json, "error", status < 0 ? trace_reader_error(reader) : NULL);
    json_close(&json);
    putchar('\n');
    return status;
}
