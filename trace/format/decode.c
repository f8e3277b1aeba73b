/* SPDX-License-Identifier: MIT
 *
 * decode.c: executions and events from a chunk's streams.
 *
 * Mirrors encode.c: the same predictions, made from what has been decoded so far. Arbitrary bytes
 * with right hashes end with an error, never outside the reader's arrays.
 */
#include "trace/format/reader_state.h"

#include <inttypes.h>
#include <string.h>

/* Executions. */

/* The state that every execution changes, in a local of the loop over executions: a compiler cannot
 * keep the reader's own fields in registers while references are stored. */
struct run {
    const uint8_t *token;
    struct path *last;
    uint64_t instructions, stores;
};

static struct run begin_run(const struct trace_reader *reader)
{
    return (struct run){.token = reader->stream[STREAM_TOKENS].next,
                        .last = &reader->paths[reader->last_path]};
}

static void end_run(struct trace_reader *reader, const struct run *run)
{
    uint64_t executions = (uint64_t)(run->token - reader->stream[STREAM_TOKENS].next);
    reader->stream[STREAM_TOKENS].next = run->token;
    reader->last_path = (uint32_t)(run->last - reader->paths);
    reader->executions += executions;
    reader->totals.superblocks += executions;
    reader->totals.instructions += run->instructions;
    reader->totals.stores += run->stores;
}

/* A number of so many bytes; all ones past the end. */
static uint64_t take_id(struct trace_reader *reader, enum chunk_stream stream, unsigned bytes)
{
    struct cursor *in = &reader->stream[stream];
    uint64_t value = 0;
    if ((size_t)(in->end - in->next) < bytes) {
        in->failed = true;
        return UINT64_MAX;
    }
    memcpy(&value, in->next, bytes);
    in->next += bytes;
    return value;
}

/* The path that comes next where it is not the last successor; NO_PATH when the stream is wrong. */
static uint32_t next_path(struct trace_reader *reader, struct path *last, unsigned way)
{
    uint64_t number;
    switch (way) {
    case PATH_LAST_SUCCESSOR:
        return last->successor[0];
    case PATH_OTHER_SUCCESSOR:
        number = last->successor[1];
        break;
    case PATH_ID16:
        number = take_id(reader, STREAM_IDS16, 2) + 1;
        break;
    case PATH_ID32:
        number = take_id(reader, STREAM_IDS32, 4) + 1;
        break;
    case PATH_NEW:
        number = reader->introduced + 1;
        if (number < reader->path_count)
            reader->introduced++;
        break;
    default:
        return NO_PATH;
    }
    if (number > reader->introduced)
        return NO_PATH;
    last->successor[1] = last->successor[0];
    last->successor[0] = (uint32_t)number;
    return (uint32_t)number;
}

static inline void put_reference(struct trace_reference *out, uint64_t address, uint64_t meaning)
{
    out->address = address;
    memcpy(&out->function, &meaning, sizeof meaning);
}

/* A difference of 1, 2, 4 or 8 bytes. Eight can always be read: the streams have room behind them.
 */
static inline uint64_t take_difference(struct cursor *in, unsigned log2_bytes)
{
    unsigned bytes = 1U << log2_bytes, unused = 64 - 8 * bytes;
    int64_t value;
    if (__builtin_expect((size_t)(in->end - in->next) < bytes, 0)) {
        in->failed = true;
        return 0;
    }
    memcpy(&value, in->next, sizeof value);
    in->next += bytes;
    return (uint64_t)((int64_t)((uint64_t)value << unused) >> unused);
}

/* Takes the differences of an execution's told slots from the streams. Returns false when a code
 * is wrong. Which code comes next cannot be foretold, so there is one branch on it for what is
 * common: whether the difference is one that is known or is read. */
static bool take_differences(struct trace_reader *reader, const struct path *path)
{
    struct cursor *codes = &reader->stream[STREAM_CODES];
    if ((size_t)(codes->end - codes->next) < path->told)
        return false;
    const uint8_t *code = codes->next;
    codes->next += path->told;
    uint64_t newest = reader->recent.newest, older = reader->recent.older;
    for (uint32_t i = 0; i < path->told; i++) {
        struct slot_state *state = &path->states[i];
        uint64_t difference = state->stride;
        if (code[i] < CODE_DELTA8) {
            difference = code[i] == CODE_RECENT ? newest : difference;
            difference = code[i] == CODE_SAME ? 0 : difference;
            difference = code[i] == CODE_OLDER ? older : difference;
        } else if (__builtin_expect(code[i] < CODE_ABSENT, 1)) {
            unsigned log2_bytes = code[i] - CODE_DELTA8;
            difference = take_difference(&reader->stream[STREAM_DELTAS8 + log2_bytes], log2_bytes);
        } else if (code[i] == CODE_ABSENT) {
            reader->some_absent = true;
            continue;
        } else {
            return false;
        }
        bool told = code[i] >= CODE_OLDER;
        older = told ? newest : older;
        newest = told ? difference : newest;
        /* As slot_moved(); and where the stride was right, as slot_as_predicted(). */
        state->stride = difference == state->difference ? difference : state->stride;
        state->difference = difference;
        state->last += difference;
    }
    reader->recent = (struct recent_differences){newest, older};
    return true;
}

/* Whether the access of a told slot did not take place, of the execution whose codes were just
 * taken. */
static bool is_absent(const struct trace_reader *reader, const struct path *path, size_t told)
{
    return reader->stream[STREAM_CODES].next[(ptrdiff_t)told - (ptrdiff_t)path->told] ==
           CODE_ABSENT;
}

/* Which of the path's told slots a base is; beyond the last when it is none of them. */
static size_t told_slot(const struct path *path, const uint64_t *base)
{
    return ((uintptr_t)base - (uintptr_t)path->states) / sizeof *path->states;
}

/* The references of an execution of which some are absent. */
static __attribute__((noinline)) struct trace_reference *make_those_present(
    struct trace_reader *reader, struct run *run, const struct path *path,
    struct trace_reference *out)
{
    uint64_t class = (uint64_t)reader->class << 56;
    reader->some_absent = false;
    for (uint32_t i = 0; i < path->references; i++) {
        const struct maker *maker = &path->makers[i];
        size_t told = told_slot(path, maker->base);
        if (told < path->told && is_absent(reader, path, told)) /* no slot follows from it */
            run->stores -= maker->meaning >> 48 & 1;
        else
            put_reference(out++, *maker->base + maker->offset, maker->meaning | class);
    }
    return out;
}

static int bad_execution(struct trace_reader *reader)
{
    return reader_fail(reader, reader->chunk_offset,
                       "damaged chunk: execution %" PRIu64 " makes no sense", reader->executions);
}

/* Decodes which path comes next and the addresses of its told slots. Returns NULL on damage. */
static inline __attribute__((always_inline)) struct path *decode_execution(
    struct trace_reader *reader, struct run *run)
{
    unsigned token = *run->token++;
    uint32_t number =
        token < 3 ? run->last->successor[0] : next_path(reader, run->last, (token - 1) / 2);
    if (number == NO_PATH)
        return NULL;
    struct path *path = &reader->paths[number];
    run->last = path;
    run->instructions += path->instructions;
    run->stores += path->stores;
    if (token != 0 && (token - 1) % 2)
        return take_differences(reader, path) ? path : NULL;
    for (uint32_t i = 0; i < path->told; i++)
        slot_as_predicted(&path->states[i]);
    return path;
}

/* Puts the references of an execution behind `out`; returns where they end. */
static inline struct trace_reference *make_references(const struct path *path, uint64_t class,
                                                      struct trace_reference *out)
{
    const struct maker *maker = path->makers;
    for (struct trace_reference *end = out + path->references; out < end; out++, maker++)
        put_reference(out, *maker->base + maker->offset, maker->meaning | class);
    return out;
}

static inline void move_stack(struct trace_reader *reader, const struct path *path)
{
    reader->stack = *path->stack_base + path->stack_offset;
}

struct trace_reference *reader_decode_run(struct trace_reader *reader, struct trace_reference *out)
{
    const struct trace_reference *start = out, *full = reader->references + BATCH_REFERENCES;
    uint64_t end =
        reader->next_event < reader->execution_count ? reader->next_event : reader->execution_count;
    uint64_t class = (uint64_t)reader->class << 56;
    struct run run = begin_run(reader);
    const uint8_t *last_token = run.token + (end - reader->executions);
    const struct path *path = run.last;
    while (run.token < last_token && out < full) {
        path = decode_execution(reader, &run);
        if (!path)
            break;
        out = __builtin_expect(reader->some_absent, 0) ? make_those_present(reader, &run, path, out)
                                                       : make_references(path, class, out);
        move_stack(reader, path);
    }
    end_run(reader, &run);
    if (!path) {
        bad_execution(reader);
        return NULL;
    }
    reader->totals.references += (uint64_t)(out - start);
    reader->totals.by_class[reader->class] += (uint64_t)(out - start);
    return out;
}

struct path *reader_decode_addresses(struct trace_reader *reader, uint64_t *addresses)
{
    struct run run = begin_run(reader);
    struct path *path = decode_execution(reader, &run);
    for (uint32_t i = 0; path && i < path->told; i++)
        addresses[i] = path->states[i].last;
    if (path && reader->some_absent) {
        for (uint32_t i = 0; i < path->told; i++)
            if (is_absent(reader, path, i))
                addresses[i] = TRACE_ABSENT;
        make_those_present(reader, &run, path, reader->references);
    }
    end_run(reader, &run);
    if (path)
        move_stack(reader, path);
    else
        bad_execution(reader);
    return path;
}

/* Events. */

void reader_find_next_event(struct trace_reader *reader)
{
    struct cursor *in = &reader->stream[STREAM_EVENTS];
    if (in->next == in->end)
        reader->next_event = UINT64_MAX;
    else
        reader->next_event += get_varint(in);
}

bool reader_next_event_switches_thread(const struct trace_reader *reader)
{
    const struct cursor *in = &reader->stream[STREAM_EVENTS];
    return reader->next_event == reader->executions && in->next < in->end &&
           *in->next == TRACE_EVENT_THREAD;
}

static int decode_event(struct trace_reader *reader, struct cursor *in, struct trace_event *event)
{
    uint64_t type = get_varint(in);
    if (type == 0 || type > EVENT_STACK)
        return reader_fail(reader, reader->chunk_offset, "event of unknown type %" PRIu64, type);
    *event = (struct trace_event){.reference = reader->totals.references,
                                  .instruction = reader->totals.instructions,
                                  .allocated_bytes = reader->totals.allocated_bytes,
                                  .type = (uint32_t)type};
    for (unsigned i = 0; i < event_values(event->type); i++)
        event->value[i] = get_varint(in);
    reader->name_offset[reader->event_count] = reader->names.used;
    if (event->type == TRACE_EVENT_MAP) {
        uint64_t length = get_varint(in);
        if (in->failed || length > (uint64_t)(in->end - in->next) ||
            !bytes_reserve(&reader->names, length + 1))
            return reader_fail(reader, reader->chunk_offset, "damaged event");
        memcpy(reader->names.data + reader->names.used, in->next, length);
        reader->names.used += length;
        reader->names.data[reader->names.used++] = 0;
        in->next += length;
    }
    if (in->failed || (event->type == TRACE_EVENT_CLASS && event->value[0] >= TRACE_CLASSES))
        return reader_fail(reader, reader->chunk_offset, "damaged event");
    return 0;
}

static int finish_event(struct trace_reader *reader)
{
    reader_find_next_event(reader);
    return reader->stream[STREAM_EVENTS].failed
               ? reader_fail(reader, reader->chunk_offset, "damaged event")
               : 0;
}

int reader_next_event(struct trace_reader *reader)
{
    struct trace_event *event = &reader->events[reader->event_count];
    if (decode_event(reader, &reader->stream[STREAM_EVENTS], event) < 0)
        return -1;
    if (event->type == EVENT_STACK) {
        reader->stack += unzigzag(event->value[0]);
        return finish_event(reader);
    }
    if (event->type == TRACE_EVENT_CLASS)
        reader->class = (uint32_t)event->value[0];
    else if (event->type == TRACE_EVENT_THREAD)
        reader->thread = (uint32_t)event->value[0];
    event->thread = reader->thread;
    reader->event_count++;
    reader->totals.events++;
    reader->totals.allocated_bytes += event_bytes(event);
    return finish_event(reader);
}

int reader_restate_regions(struct trace_reader *reader)
{
    struct cursor *in = &reader->stream[STREAM_REGIONS];
    while (in->next < in->end && reader->event_count < BATCH_EVENTS) {
        struct trace_event *event = &reader->events[reader->event_count];
        if (decode_event(reader, in, event) < 0)
            return -1;
        event->thread = reader->thread;
        reader->event_count++;
    }
    reader->resumed = in->next < in->end;
    return 0;
}
