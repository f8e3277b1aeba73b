/* SPDX-License-Identifier: MIT
 *
 * events.c: events, to a chunk's streams, and the list of mappings, which each chunk restates.
 */
#include <errno.h>
#include <string.h>

#include "trace/base/array.h"
#include "trace/format/writer_state.h"

/* Cuts [start, end) out of a mapping; what is left of it may be two pieces. */
static int cut_mapping(struct trace_writer *writer, size_t index, uint64_t start, uint64_t end)
{
    struct mapping old = writer->mappings[index];
    uint64_t old_end = old.start + old.bytes;
    writer->mappings[index] = writer->mappings[--writer->mapping_count];
    const uint64_t pieces[2][2] = {{old.start, start}, {end, old_end}};
    for (int i = 0; i < 2; i++) {
        if (pieces[i][0] >= pieces[i][1])
            continue;
        if (!array_reserve(&writer->mappings, &writer->mapping_capacity, writer->mapping_count,
                           sizeof *writer->mappings))
            return -1;
        struct mapping piece = {pieces[i][0], pieces[i][1] - pieces[i][0], old.kind,
                                strdup(old.name)};
        if (!piece.name)
            return -1;
        writer->mappings[writer->mapping_count++] = piece;
    }
    free(old.name);
    return 0;
}

/* Keeps the list of mappings, which each chunk restates. */
static int note_mapping(struct trace_writer *writer, const struct trace_event *event)
{
    uint64_t start = event->value[0], end = start + event->value[1];
    for (size_t i = writer->mapping_count; i-- > 0;) {
        const struct mapping *mapping = &writer->mappings[i];
        if (mapping->start < end && start < mapping->start + mapping->bytes &&
            cut_mapping(writer, i, start, end) < 0)
            return -1;
    }
    if (event->type == TRACE_EVENT_UNMAP)
        return 0;
    struct mapping mapping = {start, event->value[1], event->value[2],
                              strdup(event->name ? event->name : "")};
    if (!mapping.name || !array_reserve(&writer->mappings, &writer->mapping_capacity,
                                        writer->mapping_count, sizeof *writer->mappings))
        return -1;
    writer->mappings[writer->mapping_count++] = mapping;
    return 0;
}

int trace_writer_event(struct trace_writer *writer, const struct trace_event *event)
{
    struct bytes *out = &writer->stream[STREAM_EVENTS];
    if (event->type == 0 || event->type >= TRACE_EVENT_TYPES ||
        (event->type == TRACE_EVENT_CLASS && event->value[0] >= TRACE_CLASSES)) {
        errno = EINVAL;
        return -1;
    }
    if (!bytes_reserve(out, VARINT_BYTES))
        return -1;
    put_varint(out, writer->executions - writer->event_executions);
    writer->event_executions = writer->executions;
    if (!put_event(out, event))
        return -1;
    writer->totals.events++;
    writer->totals.allocated_bytes += event_bytes(event);
    if (event->type == TRACE_EVENT_CLASS)
        writer->class = (uint32_t)event->value[0];
    else if (event->type == TRACE_EVENT_THREAD)
        writer->thread = (uint32_t)event->value[0];
    else if ((event->type == TRACE_EVENT_MAP || event->type == TRACE_EVENT_UNMAP) &&
             note_mapping(writer, event) < 0)
        return -1;
    return out->used < CHUNK_EVENT_BYTES ? 0 : writer_end_chunk(writer);
}
