/* SPDX-License-Identifier: MIT
 *
 * unsafe.c: what a program does with blocks that a collector holds for dead.
 *
 * The collector rings for each block that it finds dead (doorbell_suspect), and reclaims none. A
 * reference of the program's to such a block, or its free, then shows that the program has a way
 * to it that the collector does not see.
 *
 * Not every load is one. Functions for strings and memory read vectors, and those reach beyond the
 * string: into the neighbours of the block that they were handed. So their loads of whole vectors
 * do not count.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/base/json.h"
#include "trace/base/range_map.h"
#include "trace/events/live_blocks.h"
#include "trace/inspect/inspect.h"
#include "trace/protocol/doorbell.h"

enum { MOST_FOUND = 20, VECTOR_BYTES = 16 };

struct mapped {
    uint64_t start, end, base; /* base: where the first mapping of the same file begins */
    char *name;
};

struct unsafe {
    struct trace_reader *reader;
    struct live_blocks blocks; /* object: the site */
    struct range_map suspects; /* what: the site */
    uint64_t collections, suspected, found;
    struct mapped *mapped;
    size_t mapped_count, mapped_capacity;
    uint64_t reported[MOST_FOUND]; /* sites */
    size_t reported_count;
    struct json json;
};

_Noreturn static void no_memory(void)
{
    fprintf(stderr, "allotrope: out of memory\n");
    exit(EXIT_DAMAGED);
}

static void need(bool done)
{
    if (!done)
        no_memory();
}

/* Mappings of files: which code a site lies in. */

static void add_mapping(struct unsafe *unsafe, const struct trace_event *event)
{
    if (!event->name || !*event->name)
        return;
    if (unsafe->mapped_count == unsafe->mapped_capacity) {
        unsafe->mapped_capacity = 2 * unsafe->mapped_capacity + 64;
        unsafe->mapped = realloc(unsafe->mapped, unsafe->mapped_capacity * sizeof *unsafe->mapped);
        need(unsafe->mapped);
    }
    struct mapped mapped = {event->value[0], event->value[0] + event->value[1], event->value[0],
                            strdup(event->name)};
    need(mapped.name);
    for (size_t i = 0; i < unsafe->mapped_count; i++)
        if (strcmp(unsafe->mapped[i].name, mapped.name) == 0 &&
            unsafe->mapped[i].base < mapped.base)
            mapped.base = unsafe->mapped[i].base;
    unsafe->mapped[unsafe->mapped_count++] = mapped;
}

/* "libfontconfig.so.1.12.0+0x1b2c3"; the last mapping there counts. */
static void write_site(struct unsafe *unsafe, uint64_t site)
{
    char text[512];
    for (size_t i = unsafe->mapped_count; i-- > 0;) {
        const struct mapped *mapped = &unsafe->mapped[i];
        if (site < mapped->start || site >= mapped->end)
            continue;
        const char *slash = strrchr(mapped->name, '/');
        snprintf(text, sizeof text, "%s+0x%" PRIx64, slash ? slash + 1 : mapped->name,
                 site - mapped->base);
        json_bytes(&unsafe->json, "site", text);
        return;
    }
    snprintf(text, sizeof text, "0x%" PRIx64, site);
    json_bytes(&unsafe->json, "site", text);
}

/* What is found. */

static bool is_new_site(struct unsafe *unsafe, uint64_t site)
{
    for (size_t i = 0; i < unsafe->reported_count; i++)
        if (unsafe->reported[i] == site)
            return false;
    if (unsafe->reported_count == MOST_FOUND)
        return false;
    unsafe->reported[unsafe->reported_count++] = site;
    return true;
}

/* use: "load", "store", "free" or "realloc". function: where; NULL if that is not known. */
static void found(struct unsafe *unsafe, const struct range *suspect, const char *use,
                  const char *function, const char *object)
{
    unsafe->found++;
    if (!is_new_site(unsafe, suspect->what))
        return;
    struct json *json = &unsafe->json;
    json_open(json, NULL);
    json_number(json, "block", suspect->start);
    json_number(json, "bytes", suspect->end - suspect->start);
    write_site(unsafe, suspect->what);
    json_text(json, "use", use);
    json_bytes(json, "function", function);
    json_bytes(json, "object", object);
    json_close(json);
}

/* The program has it: it is a suspect no more, and counts once. */
static void found_at(struct unsafe *unsafe, uint64_t address, const char *use, const char *function,
                     const char *object)
{
    const struct range *at = range_map_find(&unsafe->suspects, address);
    if (!at)
        return;
    struct range suspect = *at;
    found(unsafe, &suspect, use, function, object);
    need(range_map_cut(&unsafe->suspects, suspect.start, suspect.end));
}

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static bool reads_beyond(const struct trace_reference *reference, const char *function)
{
    static const char *const kinds[] = {"str", "mem", "wcs", "wmem", "rawmem", "stp"};
    if (reference->size < VECTOR_BYTES || reference->kind != TRACE_LOAD)
        return false;
    while (*function == '_')
        function++;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (begins_with(function, kinds[i]))
            return true;
    return false;
}

static void look_at(struct unsafe *unsafe, const struct trace_reference *reference)
{
    if (reference->class != TRACE_CLASS_PROGRAM || unsafe->suspects.count == 0 ||
        !range_map_find(&unsafe->suspects, reference->address))
        return;
    const char *object;
    const char *function = trace_reader_function(unsafe->reader, reference->function, &object);
    if (!reads_beyond(reference, function))
        found_at(unsafe, reference->address, reference->kind == TRACE_STORE ? "store" : "load",
                 function, object);
}

/* Events. */

static void forget_block(struct unsafe *unsafe, uint64_t pointer)
{
    struct live_block *block = live_blocks_find(&unsafe->blocks, pointer);
    if (block)
        live_blocks_remove(&unsafe->blocks, block);
}

static void add_block(struct unsafe *unsafe, const struct trace_event *event)
{
    forget_block(unsafe, event->value[0]); /* a collector's free is not told */
    if (event->value[0])
        need(live_blocks_add(&unsafe->blocks, (struct live_block){.pointer = event->value[0],
                                                                  .size = event->value[1],
                                                                  .object = event->value[2]}));
}

static void add_suspect(struct unsafe *unsafe, uint64_t pointer)
{
    const struct live_block *block = live_blocks_find(&unsafe->blocks, pointer);
    unsafe->suspected++;
    if (block)
        need(range_map_put(&unsafe->suspects, pointer, pointer + (block->size ? block->size : 1),
                           block->object));
}

static void take_event(struct unsafe *unsafe, const struct trace_event *event)
{
    switch (event->type) {
    case TRACE_EVENT_MALLOC:
        add_block(unsafe, event);
        break;
    case TRACE_EVENT_REALLOC:
        found_at(unsafe, event->value[3], "realloc", NULL, NULL);
        if (event->value[0])
            forget_block(unsafe, event->value[3]);
        add_block(unsafe, event);
        break;
    case TRACE_EVENT_FREE:
        found_at(unsafe, event->value[0], "free", NULL, NULL);
        forget_block(unsafe, event->value[0]);
        break;
    case TRACE_EVENT_COLLECTION_END:
        unsafe->collections++;
        break;
    case TRACE_EVENT_MAP:
        add_mapping(unsafe, event);
        break;
    case TRACE_EVENT_MARK:
        if (event->value[0] & DOORBELL_SUSPECT)
            add_suspect(unsafe, event->value[0] & ~DOORBELL_SUSPECT);
        break;
    default:
        break;
    }
}

static void take_batch(struct unsafe *unsafe, const struct trace_batch *batch)
{
    size_t next = 0;
    for (size_t i = 0; i < batch->count; i++) {
        for (; next < batch->event_count &&
               batch->events[next].reference <= batch->first_reference + i;
             next++)
            take_event(unsafe, &batch->events[next]);
        look_at(unsafe, &batch->references[i]);
    }
    for (; next < batch->event_count; next++)
        take_event(unsafe, &batch->events[next]);
}

int inspect_unsafe(struct trace_reader *reader)
{
    struct unsafe unsafe = {.reader = reader, .json.output = stdout};
    need(live_blocks_init(&unsafe.blocks));
    json_open(&unsafe.json, NULL);
    json_open_list(&unsafe.json, "found");
    struct trace_batch batch;
    int status;
    while ((status = trace_reader_next(reader, &batch)) > 0)
        take_batch(&unsafe, &batch);
    json_close_list(&unsafe.json);
    json_number(&unsafe.json, "uses", unsafe.found);
    json_number(&unsafe.json, "suspects", unsafe.suspected);
    json_number(&unsafe.json, "collections", unsafe.collections);
    json_bool(&unsafe.json, "whole", status == 0);
    json_close(&unsafe.json);
    printf("\n");
    for (size_t i = 0; i < unsafe.mapped_count; i++)
        free(unsafe.mapped[i].name);
    free(unsafe.mapped);
    live_blocks_free(&unsafe.blocks);
    range_map_free(&unsafe.suspects);
    return status;
}
