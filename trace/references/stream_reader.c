/* SPDX-License-Identifier: MIT
 *
 * stream_reader.c: batches of references from a program that is running, as reader.c makes them
 * from a file. The raw stream's executions become references in the caller's array, as many as it
 * holds; nothing is encoded or copied.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/protocol/reference_ring.h"
#include "trace/references/raw.h"
#include "trace/references/stream.h"

struct superblock {
    uint32_t slot_count;
    uint64_t *meanings; /* second words of struct trace_reference, class not yet set */
};

struct path {
    const uint64_t *meanings;
    uint32_t count;
    uint32_t instructions;
};

struct function {
    char *name;
    char *object;
};

/* An array of anything that grows. */
struct table {
    void *data;
    size_t count, capacity;
};

/* What the stream has said since the last batch. */
struct trace_stream_reader {
    struct trace_stream *live;
    struct raw_stream *stream;
    struct raw_sink sink;
    const uint64_t *words; /* of the ring's slot, that are still to be taken */
    size_t word_count;
    struct table superblocks, paths, functions;
    struct table events, names;
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

static void *append(struct table *table, size_t more, size_t element_bytes)
{
    if (table->count + more > table->capacity) {
        size_t capacity = 2 * (table->count + more);
        void *larger = reallocarray(table->data, capacity, element_bytes);
        if (!larger)
            return NULL;
        table->data = larger;
        table->capacity = capacity;
    }
    void *end = (char *)table->data + table->count * element_bytes;
    table->count += more;
    return end;
}

/* The sink. */

static int take_function(void *context, uint32_t id, const char *name, const char *object)
{
    struct trace_stream_reader *reader = context;
    while (reader->functions.count <= id) {
        struct function *function = append(&reader->functions, 1, sizeof *function);
        if (!function)
            return -1;
        *function = (struct function){NULL, NULL};
    }
    struct function *function = (struct function *)reader->functions.data + id;
    *function = (struct function){strdup(name), strdup(object)};
    return function->name && function->object ? 0 : -1;
}

static int64_t take_superblock(void *context, uint64_t address, uint32_t function,
                               uint32_t slot_count, const struct trace_slot *slots)
{
    struct trace_stream_reader *reader = context;
    (void)address;
    uint64_t *meanings = calloc(slot_count + 1, sizeof *meanings);
    struct superblock *superblock = append(&reader->superblocks, 1, sizeof *superblock);
    if (!meanings || !superblock) {
        free(meanings);
        return -1;
    }
    for (uint32_t i = 0; i < slot_count; i++)
        meanings[i] = function | (uint64_t)slots[i].size << 32 | (uint64_t)slots[i].kind << 48;
    *superblock = (struct superblock){slot_count, meanings};
    return (int64_t)reader->superblocks.count - 1;
}

static int64_t take_path(void *context, uint32_t superblock, uint32_t first, uint32_t end,
                         uint32_t instructions)
{
    struct trace_stream_reader *reader = context;
    const struct superblock *of = (struct superblock *)reader->superblocks.data + superblock;
    struct path *path = append(&reader->paths, 1, sizeof *path);
    if (!path)
        return -1;
    *path = (struct path){of->meanings + first, end - first, instructions};
    return (int64_t)reader->paths.count - 1;
}

static int take_executions(void *context, const struct raw_execution *executions, size_t count)
{
    struct trace_stream_reader *reader = context;
    const struct path *paths = reader->paths.data;
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
    struct trace_event *kept = append(&reader->events, 1, sizeof *kept);
    char **name = append(&reader->names, 1, sizeof *name);
    if (!kept || !name)
        return -1;
    *name = event->type == TRACE_EVENT_MAP ? strdup(event->name) : NULL;
    *kept = *event;
    kept->name = *name;
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

static void free_names(struct trace_stream_reader *reader)
{
    for (size_t i = 0; i < reader->names.count; i++)
        free(((char **)reader->names.data)[i]);
    reader->names.count = 0;
}

/* Takes what comes next of the stream, as far as its references are sure to find room. Returns 1,
 * 0 at its end, -1. */
static int take_piece(struct trace_stream_reader *reader, size_t room)
{
    if (reader->word_count == 0 &&
        !trace_stream_next(reader->live, &reader->words, &reader->word_count))
        return raw_finish(reader->stream);
    int64_t taken = raw_take(reader->stream, reader->words, reader->word_count,
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
    free_names(reader);
    reader->events.count = 0;
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
    batch->event_count = reader->events.count;
    batch->events = reader->events.data;
    return batch->count > 0 || batch->event_count > 0 ? 1 : reader->status;
}

bool trace_stream_reader_threaded(const struct trace_stream_reader *reader)
{
    return reader->threaded;
}

struct trace_stream_reader *trace_stream_reader_open(struct trace_stream *live)
{
    struct trace_stream_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->live = live;
    reader->status = 1;
    reader->sink = (struct raw_sink){reader,    take_function,   take_superblock,
                                     take_path, take_executions, take_event};
    reader->stream = raw_open(&reader->sink);
    if (reader->stream)
        return reader;
    free(reader);
    return NULL;
}

const char *trace_stream_reader_function(const struct trace_stream_reader *reader, uint32_t id,
                                         const char **object)
{
    static const struct function unknown = {(char *)"?", (char *)"?"};
    const struct function *function = &unknown;
    if (id < reader->functions.count && ((struct function *)reader->functions.data)[id].name)
        function = (struct function *)reader->functions.data + id;
    if (object)
        *object = function->object;
    return function->name;
}

const char *trace_stream_reader_error(const struct trace_stream_reader *reader)
{
    return raw_error(reader->stream);
}

void trace_stream_reader_close(struct trace_stream_reader *reader)
{
    free_names(reader);
    raw_close(reader->stream);
    for (size_t i = 0; i < reader->superblocks.count; i++)
        free(((struct superblock *)reader->superblocks.data)[i].meanings);
    for (size_t i = 0; i < reader->functions.count; i++) {
        free(((struct function *)reader->functions.data)[i].name);
        free(((struct function *)reader->functions.data)[i].object);
    }
    struct table *tables[] = {&reader->superblocks, &reader->paths, &reader->functions,
                              &reader->events, &reader->names};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        free(tables[i]->data);
    free(reader);
}
