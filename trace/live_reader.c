/* SPDX-License-Identifier: MIT */
/* live_reader.c: batches of references from a program that is running, as reader.c makes them
 * from a file. The raw stream's executions are put into an array as they come; nothing is
 * encoded. A slot of the ring is taken in pieces whose references stay in the second-level cache
 * until somebody uses them. */
#include "trace/live.h"
#include "trace/raw.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct superblock {
    uint32_t slot_count;
    uint64_t *meanings; /* second words of struct trace_reference, class not yet set */
};

struct path {
    const uint64_t *meanings;
    uint32_t count;
    uint32_t instructions;
    uint32_t stores;
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

enum { PIECE_WORDS = 1 << 13 };

/* What the stream has said since the last batch. A piece of the stream is taken whole and then
 * handed out batch by batch, one for each turn of a thread. */
struct trace_live_reader {
    struct trace_live *live;
    struct raw_stream *stream;
    struct raw_sink sink;
    const uint64_t *words; /* of the ring's slot, that are still to be taken */
    size_t word_count;
    struct table superblocks, paths, functions;
    struct table references, events, names, turns;
    size_t next_turn, next_event;
    uint64_t first_reference; /* number of references[0] */
    uint32_t thread, class;
    bool ended;
    struct trace_totals totals;
    char error[TRACE_ERROR_BYTES];
};

/* From here on in the arrays it is this thread that runs. */
struct turn {
    uint32_t thread;
    size_t reference, event;
    uint64_t instruction;
};

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

/* ------------------------------------------------------------------ the sink */

static int take_function(void *context, uint32_t id, const char *name, const char *object)
{
    struct trace_live_reader *reader = context;
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
    struct trace_live_reader *reader = context;
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
    struct trace_live_reader *reader = context;
    const struct superblock *of = (struct superblock *)reader->superblocks.data + superblock;
    struct path *path = append(&reader->paths, 1, sizeof *path);
    if (!path)
        return -1;
    *path = (struct path){of->meanings + first, end - first, instructions, 0};
    for (uint32_t i = 0; i < path->count; i++)
        path->stores += path->meanings[i] >> 48 & 1;
    return (int64_t)reader->paths.count - 1;
}

static int take_execution(void *context, uint32_t index, const uint64_t *addresses)
{
    struct trace_live_reader *reader = context;
    const struct path *path = (struct path *)reader->paths.data + index;
    uint64_t class = (uint64_t)reader->class << 56;
    struct trace_reference *out = append(&reader->references, path->count, sizeof *out);
    if (!out)
        return -1;
    uint32_t absent = 0;
    reader->totals.stores += path->stores;
    for (uint32_t i = 0; i < path->count; i++) {
        uint64_t meaning = path->meanings[i] | class;
        if (addresses[i] == TRACE_ABSENT) {
            absent++;
            reader->totals.stores -= meaning >> 48 & 1;
            continue;
        }
        out->address = addresses[i];
        memcpy(&out->function, &meaning, sizeof meaning);
        out++;
    }
    reader->references.count -= absent;
    reader->totals.superblocks++;
    reader->totals.instructions += path->instructions;
    reader->totals.references += path->count - absent;
    reader->totals.by_class[reader->class] += path->count - absent;
    return 0;
}

static int begin_turn(struct trace_live_reader *reader)
{
    struct turn *turn = append(&reader->turns, 1, sizeof *turn);
    if (!turn)
        return -1;
    *turn = (struct turn){reader->thread, reader->references.count, reader->events.count,
                          reader->totals.instructions};
    return 0;
}

static int take_event(void *context, const struct trace_event *event)
{
    struct trace_live_reader *reader = context;
    if (event->type == TRACE_EVENT_THREAD) {
        reader->thread = (uint32_t)event->value[0];
        if (begin_turn(reader) < 0)
            return -1;
    } else if (event->type == TRACE_EVENT_CLASS) {
        reader->class = (uint32_t)event->value[0];
    }
    struct trace_event *kept = append(&reader->events, 1, sizeof *kept);
    char **name = append(&reader->names, 1, sizeof *name);
    if (!kept || !name)
        return -1;
    *name = event->type == TRACE_EVENT_MAP ? strdup(event->name) : NULL;
    *kept = *event;
    kept->name = *name;
    kept->reference = reader->totals.references;
    kept->instruction = reader->totals.instructions;
    kept->allocated_bytes = reader->totals.allocated_bytes;
    kept->thread = reader->thread;
    reader->totals.events++;
    if ((event->type == TRACE_EVENT_MALLOC || event->type == TRACE_EVENT_REALLOC) &&
        event->value[0] != 0)
        reader->totals.allocated_bytes += event->value[1];
    return 0;
}

/* ------------------------------------------------------------------ batches */

static void free_names(struct trace_live_reader *reader)
{
    for (size_t i = 0; i < reader->names.count; i++)
        free(((char **)reader->names.data)[i]);
    reader->names.count = 0;
}

/* Takes the next piece of the stream. Returns 1, 0 at its end, -1. */
static int take_piece(struct trace_live_reader *reader)
{
    free_names(reader);
    reader->references.count = reader->events.count = reader->turns.count = 0;
    reader->next_turn = 0;
    reader->first_reference = reader->totals.references;
    if (reader->ended)
        return 0;
    if (begin_turn(reader) < 0)
        return -1;
    if (reader->word_count == 0 &&
        !trace_live_next(reader->live, &reader->words, &reader->word_count)) {
        reader->ended = true;
        return raw_finish(reader->stream) < 0 ? -1 : 1;
    }
    int64_t taken = raw_take(reader->stream, reader->words, reader->word_count, PIECE_WORDS);
    if (taken < 0)
        return -1;
    reader->words += taken;
    reader->word_count -= (size_t)taken;
    return 1;
}

int trace_live_reader_next(struct trace_live_reader *reader, struct trace_batch *batch)
{
    while (reader->next_turn == reader->turns.count) {
        int status = take_piece(reader);
        if (status < 0)
            snprintf(reader->error, sizeof reader->error, "%s", raw_error(reader->stream));
        if (status <= 0)
            return status;
    }
    const struct turn *turn = (struct turn *)reader->turns.data + reader->next_turn++;
    bool last = reader->next_turn == reader->turns.count;
    size_t end = last ? reader->references.count : turn[1].reference;
    size_t event_end = last ? reader->events.count : turn[1].event;
    *batch = (struct trace_batch){
        .first_reference = reader->first_reference + turn->reference,
        .instruction = turn->instruction,
        .thread = turn->thread,
        .count = end - turn->reference,
        .references = (struct trace_reference *)reader->references.data + turn->reference,
        .event_count = event_end - turn->event,
        .events = (struct trace_event *)reader->events.data + turn->event,
    };
    return 1;
}

struct trace_live_reader *trace_live_reader_open(struct trace_live *live)
{
    struct trace_live_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->live = live;
    reader->sink = (struct raw_sink){reader,    take_function,  take_superblock,
                                     take_path, take_execution, take_event};
    reader->stream = raw_open(&reader->sink);
    if (reader->stream)
        return reader;
    free(reader);
    return NULL;
}

const struct trace_totals *trace_live_reader_totals(const struct trace_live_reader *reader)
{
    return &reader->totals;
}

const char *trace_live_reader_function(const struct trace_live_reader *reader, uint32_t id,
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

const char *trace_live_reader_error(const struct trace_live_reader *reader)
{
    return reader->error;
}

void trace_live_reader_close(struct trace_live_reader *reader)
{
    free_names(reader);
    raw_close(reader->stream);
    for (size_t i = 0; i < reader->superblocks.count; i++)
        free(((struct superblock *)reader->superblocks.data)[i].meanings);
    for (size_t i = 0; i < reader->functions.count; i++) {
        free(((struct function *)reader->functions.data)[i].name);
        free(((struct function *)reader->functions.data)[i].object);
    }
    struct table *tables[] = {&reader->superblocks, &reader->paths,  &reader->functions,
                              &reader->references,  &reader->events, &reader->names,
                              &reader->turns};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        free(tables[i]->data);
    free(reader);
}
