/* SPDX-License-Identifier: MIT
 *
 * stream_reader.c: see stream_reader.h. The raw stream's executions become references in the
 * caller's array, as many as it holds; nothing is encoded or copied.
 */
#include "trace/references/stream_reader.h"

#include <stdlib.h>
#include <string.h>

#include "trace/base/array.h"
#include "trace/base/functions.h"
#include "trace/base/instructions.h"
#include "trace/protocol/reference_ring.h"
#include "trace/references/raw.h"

/* How a reference is made: its address is the base and `offset`. */
struct maker {
    int32_t base; /* index of a told address, or FROM_NOTHING or FROM_STACK */
    uint64_t offset;
    uint64_t meaning; /* second word of struct trace_reference, class not yet set */
};
enum { FROM_NOTHING = -1, FROM_STACK = -2 };

struct superblock {
    uint32_t function;
    struct trace_slot *slots;
    struct maker *makers; /* of the paths that begin at its first slot */
};

struct path {
    const struct maker *makers;
    uint32_t count;
    uint32_t instructions;
    int32_t stack_base;
    uint64_t stack_offset;
    struct maker *own; /* makers that are no other path's */
};

/* What the stream has said since the last batch. */
struct trace_stream_reader {
    struct trace_stream *stream;
    struct raw_decoder *decoder;
    struct raw_sink sink;
    const uint64_t *words; /* of the ring's buffer, that are still to be taken */
    size_t word_count;
    struct superblock *superblocks;
    size_t superblock_count, superblock_capacity;
    struct path *paths;
    size_t path_count, path_capacity;
    struct functions functions;
    struct instructions numbered;
    struct trace_event *events;
    size_t event_count, event_capacity;
    struct trace_reference *next; /* where the next reference goes: the caller's */
    size_t count;                 /* references put there */
    uint64_t references;          /* before this batch */
    uint64_t instructions, allocated_bytes;
    uint64_t stack; /* the stack pointer */
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
    struct function function = {strdup(name), strdup(object)};
    return functions_add(&reader->functions, id, function) ? 0 : -1;
}

/* The told slot that a base is, as an index from those of slot `first` on. */
static int32_t base_index(const struct trace_slot *slots, uint32_t first, uint32_t base)
{
    if (base == TRACE_BASE_NOTHING)
        return FROM_NOTHING;
    if (base < TRACE_BASE_SLOT)
        return FROM_STACK;
    int32_t index = 0;
    for (uint32_t i = first; i < base - TRACE_BASE_SLOT; i++)
        index += slots[i].base == TRACE_TOLD;
    return index;
}

/* The makers of the references of slots [first, end). Returns NULL when memory is short. */
static struct maker *make_makers(struct trace_stream_reader *reader,
                                 const struct superblock *superblock, uint32_t first, uint32_t end)
{
    struct maker *makers = calloc(end - first + 1, sizeof *makers), *next = makers;
    const struct trace_slot *slots = superblock->slots;
    for (uint32_t i = first; makers && i < end; i++) {
        uint32_t base = slots[i].base == TRACE_TOLD ? TRACE_BASE_SLOT + i : slots[i].base;
        if (slots[i].kind == TRACE_POINTER)
            continue;
        uint32_t function =
            instructions_number(&reader->numbered, slots[i].instruction, superblock->function);
        *next++ = (struct maker){base_index(slots, first, base), slots[i].offset,
                                 function | (uint64_t)slots[i].size << 32 |
                                     (uint64_t)slots[i].kind << 48};
    }
    if (!reader->numbered.short_of_memory)
        return makers;
    free(makers);
    return NULL;
}

static int64_t take_superblock(void *context, uint64_t address, uint32_t function,
                               uint32_t slot_count, const struct trace_slot *slots)
{
    struct trace_stream_reader *reader = context;
    (void)address;
    if (!array_reserve(&reader->superblocks, &reader->superblock_capacity, reader->superblock_count,
                       sizeof *reader->superblocks))
        return -1;
    struct superblock *superblock = &reader->superblocks[reader->superblock_count++];
    *superblock = (struct superblock){function, calloc(slot_count + 1, sizeof *slots), NULL};
    if (!superblock->slots)
        return -1;
    if (slot_count > 0)
        memcpy(superblock->slots, slots, slot_count * sizeof *slots);
    superblock->makers = make_makers(reader, superblock, 0, slot_count);
    return superblock->makers ? (int64_t)reader->superblock_count - 1 : -1;
}

static int64_t take_path(void *context, const struct trace_path *described)
{
    struct trace_stream_reader *reader = context;
    if (!array_reserve(&reader->paths, &reader->path_capacity, reader->path_count,
                       sizeof *reader->paths))
        return -1;
    const struct superblock *superblock = &reader->superblocks[described->superblock];
    struct path *path = &reader->paths[reader->path_count++];
    *path = (struct path){
        .makers = superblock->makers,
        .instructions = described->instructions,
        .stack_base = base_index(superblock->slots, described->first, described->stack_base),
        .stack_offset = described->stack_offset,
    };
    for (uint32_t i = described->first; i < described->end; i++)
        path->count += superblock->slots[i].kind != TRACE_POINTER;
    if (described->first > 0)
        path->makers = path->own =
            make_makers(reader, superblock, described->first, described->end);
    return path->makers ? (int64_t)reader->path_count - 1 : -1;
}

static void take_stack(void *context, uint64_t pointer)
{
    struct trace_stream_reader *reader = context;
    reader->stack = pointer;
}

/* What a base is at present. */
static inline uint64_t base_value(int32_t base, const uint64_t *addresses, uint64_t stack)
{
    const uint64_t known[] = {stack, 0};
    const uint64_t *value = base < 0 ? &known[base - FROM_STACK] : &addresses[base];
    return *value;
}

static int take_executions(void *context, const struct trace_execution *executions, size_t count)
{
    struct trace_stream_reader *reader = context;
    const struct path *paths = reader->paths;
    const uint64_t class = (uint64_t)reader->class << 56;
    struct trace_reference *next = reader->next;
    uint64_t instructions = 0, stack = reader->stack;
    for (size_t i = 0; i < count; i++) {
        const struct path *path = &paths[executions[i].path];
        const uint64_t *addresses = executions[i].addresses;
        instructions += path->instructions;
        __builtin_prefetch(next + AHEAD_REFERENCES, 1);
        const struct maker *maker = path->makers;
        for (const struct maker *end = maker + path->count; maker < end; maker++) {
            uint64_t base = base_value(maker->base, addresses, stack);
            uint64_t meaning = maker->meaning | class;
            next->address = base + maker->offset;
            memcpy(&next->function, &meaning, sizeof meaning);
            next += base != TRACE_ABSENT;
        }
        stack = base_value(path->stack_base, addresses, stack) + path->stack_offset;
    }
    reader->stack = stack;
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
    reader->sink = (struct raw_sink){reader,     take_function,   take_superblock, take_path,
                                     take_stack, take_executions, take_event};
    reader->decoder = raw_open(&reader->sink);
    if (reader->decoder)
        return reader;
    free(reader);
    return NULL;
}

const char *trace_stream_reader_function(const struct trace_stream_reader *reader, uint32_t id,
                                         const char **object)
{
    return functions_find(&reader->functions, id, object);
}

void trace_stream_reader_by_instruction(struct trace_stream_reader *reader)
{
    reader->numbered.in_use = true;
}

const struct instruction *trace_stream_reader_instruction(const struct trace_stream_reader *reader,
                                                          uint32_t number)
{
    return instructions_find(&reader->numbered, number);
}

const char *trace_stream_reader_error(const struct trace_stream_reader *reader)
{
    return raw_error(reader->decoder);
}

void trace_stream_reader_close(struct trace_stream_reader *reader)
{
    drop_events(reader);
    raw_close(reader->decoder);
    for (size_t i = 0; i < reader->superblock_count; i++) {
        free(reader->superblocks[i].slots);
        free(reader->superblocks[i].makers);
    }
    for (size_t i = 0; i < reader->path_count; i++)
        free(reader->paths[i].own);
    free(reader->superblocks);
    functions_free(&reader->functions);
    instructions_free(&reader->numbered);
    free(reader->paths);
    free(reader->events);
    free(reader);
}
