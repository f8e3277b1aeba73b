/* SPDX-License-Identifier: MIT
 *
 * stream_reader.c: see stream_reader.h. The raw stream's executions become references in the
 * caller's array, as many as it holds; nothing is encoded or copied.
 */
#include "trace/references/stream_reader.h"

#include <stdlib.h>
#include <string.h>

#include "trace/base/array.h"
#include "trace/protocol/reference_ring.h"
#include "trace/references/raw.h"

struct path {
    const uint64_t *meanings;
    uint32_t count;
    uint32_t instructions;
};

struct function {
    char *name;
    char *object;
};

/* What the stream has said since the last batch. */
struct trace_stream_reader {
    struct trace_stream *stream;
    struct raw_decoder *decoder;
    struct raw_sink sink;
    const uint64_t *words; /* of the ring's buffer, that are still to be taken */
    size_t word_count;
    uint64_t **meanings; /* of each superblock: second words of struct trace_reference, class not
                          * yet set */
    size_t superblock_count, superblock_capacity;
    struct path *paths;
    size_t path_count, path_capacity;
    struct function *functions; /* by id */
    size_t function_capacity;
    struct trace_event *events;
    size_t event_count, event_capacity;
    struct trace_reference *next; /* where the next reference goes: the caller's */
    size_t count;                 /* references put there */
    uint64_t references;          /* before this batch */
    uint64_t instructions, allocated_bytes;
    uint32_t thread, class;
    bool any_thread, threaded;
    uint32_t first_thread; /* that made a reference */
    int status;            /* as of trace_stream_reader_next() */
};

/* How far ahead of what is written the caller's array is fetched: another processor has read what
 * stood there before. */
enum { AHEAD_REFERENCES = 64 };

/* A superblock that is pending, the last that is taken, and a reference that did not take place. */
_Static_assert(TRACE_STREAM_LEAST_ROOM > 2 * REFERENCE_RING_MAX_SLOTS + 1,
               "what is taken finds room");

/* The sink. */

static int take_function(void *context, uint32_t id, const char *name, const char *object)
{
    struct trace_stream_reader *reader = context;
    if (!array_reserve(&reader->functions, &reader->function_capacity, id,
                       sizeof *reader->functions))
        return -1;
    struct function *function = &reader->functions[id];
    *function = (struct function){strdup(name), strdup(object)};
    return function->name && function->object ? 0 : -1;
}

static int64_t take_superblock(void *context, uint64_t address, uint32_t function,
                               uint32_t slot_count, const struct trace_slot *slots)
{
    struct trace_stream_reader *reader = context;
    (void)address;
    uint64_t *meanings = calloc(slot_count + 1, sizeof *meanings);
    if (!meanings || !array_reserve(&reader->meanings, &reader->superblock_capacity,
                                    reader->superblock_count, sizeof *reader->meanings)) {
        free(meanings);
        return -1;
    }
    for (uint32_t i = 0; i < slot_count; i++)
        meanings[i] = function | (uint64_t)slots[i].size << 32 | (uint64_t)slots[i].kind << 48;
    reader->meanings[reader->superblock_count] = meanings;
    return (int64_t)reader->superblock_count++;
}

static int64_t take_path(void *context, uint32_t superblock, uint32_t first, uint32_t end,
                         uint32_t instructions)
{
    struct trace_stream_reader *reader = context;
    if (!array_reserve(&reader->paths, &reader->path_capacity, reader->path_count,
                       sizeof *reader->paths))
        return -1;
    reader->paths[reader->path_count] =
        (struct path){reader->meanings[superblock] + first, end - first, instructions};
    return (int64_t)reader->path_count++;
}

static int take_executions(void *context, const struct trace_execution *executions, size_t count)
{
    struct trace_stream_reader *reader = context;
    const struct path *paths = reader->paths;
    const uint64_t class = (uint64_t)reader->class << 56;
    struct trace_reference *next = reader->next;
    uint64_t instructions = 0;
    for (size_t i = 0; i < count; i++) {
        const struct path *path = &paths[executions[i].path];
        const uint64_t *addresses = executions[i].addresses, *meanings = path->meanings;
        instructions += path->instructions;
        __builtin_prefetch(next + AHEAD_REFERENCES, 1);
        for (uint32_t slot = 0; slot < path->count; slot++) {
            uint64_t meaning = meanings[slot] | class;
            next->address = addresses[slot];
            memcpy(&next->function, &meaning, sizeof meaning);
            next += addresses[slot] != TRACE_ABSENT;
        }
    }
    if (next != reader->next) {
        reader->first_thread = reader->any_thread ? reader->first_thread : reader->thread;
        reader->any_thread = true;
        reader->threaded |= reader->thread != reader->first_thread;
    }
    reader->count += (size_t)(next - reader->next);
    reader->next = next;
    reader->instructions += instructions;
    return 0;
}

static int take_event(void *context, const struct trace_event *event)
{
    struct trace_stream_reader *reader = context;
    if (event->type == TRACE_EVENT_THREAD)
        reader->thread = (uint32_t)event->value[0];
    else if (event->type == TRACE_EVENT_CLASS)
        reader->class = (uint32_t)event->value[0];
    if (!array_reserve(&reader->events, &reader->event_capacity, reader->event_count,
                       sizeof *reader->events))
        return -1;
    struct trace_event *kept = &reader->events[reader->event_count++];
    *kept = *event;
    kept->name = event->type == TRACE_EVENT_MAP ? strdup(event->name) : NULL;
    kept->reference = reader->references + reader->count;
    kept->instruction = reader->instructions;
    kept->allocated_bytes = reader->allocated_bytes;
    kept->thread = reader->thread;
    if ((event->type == TRACE_EVENT_MALLOC || event->type == TRACE_EVENT_REALLOC) &&
        event->value[0] != 0)
        reader->allocated_bytes += event->value[1];
    return 0;
}

/* Batches. */

static void drop_events(struct trace_stream_reader *reader)
{
    for (size_t i = 0; i < reader->event_count; i++)
        free((char *)reader->events[i].name);
    reader->event_count = 0;
}

/* Takes what comes next of the stream, as far as its references are sure to find room. Returns 1,
 * 0 at its end, -1. */
static int take_piece(struct trace_stream_reader *reader, size_t room)
{
    if (reader->word_count == 0 &&
        !trace_stream_next(reader->stream, &reader->words, &reader->word_count))
        return raw_finish(reader->decoder);
    int64_t taken = raw_take(reader->decoder, reader->words, reader->word_count,
                             room - TRACE_STREAM_LEAST_ROOM + 1);
    if (taken < 0)
        return -1;
    reader->words += taken;
    reader->word_count -= (size_t)taken;
    return 1;
}

int trace_stream_reader_next(struct trace_stream_reader *reader, struct trace_reference *references,
                             size_t room, struct trace_batch *batch)
{
    drop_events(reader);
    reader->references += reader->count;
    reader->count = 0;
    reader->next = references;
    *batch = (struct trace_batch){
        .first_reference = reader->references,
        .instruction = reader->instructions,
        .thread = reader->thread,
        .references = references,
    };
    while (reader->status > 0 && room - reader->count >= TRACE_STREAM_LEAST_ROOM)
        reader->status = take_piece(reader, room - reader->count);
    batch->count = reader->count;
    batch->event_count = reader->event_count;
    batch->events = reader->events;
    return batch->count > 0 || batch->event_count > 0 ? 1 : reader->status;
}

bool trace_stream_reader_threaded(const struct trace_stream_reader *reader)
{
    return reader->threaded;
}

struct trace_stream_reader *trace_stream_reader_open(struct trace_stream *stream)
{
    struct trace_stream_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->stream = stream;
    reader->status = 1;
    reader->sink = (struct raw_sink){reader,    take_function,   take_superblock,
                                     take_path, take_executions, take_event};
    reader->decoder = raw_open(&reader->sink);
    if (reader->decoder)
        return reader;
    free(reader);
    return NULL;
}

const char *trace_stream_reader_function(const struct trace_stream_reader *reader, uint32_t id,
                                         const char **object)
{
    static const struct function unknown = {(char *)"?", (char *)"?"};
    const struct function *function = &unknown;
    if (id < reader->function_capacity && reader->functions[id].name)
        function = &reader->functions[id];
    if (object)
        *object = function->object;
    return function->name;
}

const char *trace_stream_reader_error(const struct trace_stream_reader *reader)
{
    return raw_error(reader->decoder);
}

void trace_stream_reader_close(struct trace_stream_reader *reader)
{
    drop_events(reader);
    raw_close(reader->decoder);
    for (size_t i = 0; i < reader->superblock_count; i++)
        free(reader->meanings[i]);
    for (size_t i = 0; i < reader->function_capacity; i++) {
        free(reader->functions[i].name);
        free(reader->functions[i].object);
    }
    free(reader->meanings);
    free(reader->functions);
    free(reader->paths);
    free(reader->events);
    free(reader);
}
