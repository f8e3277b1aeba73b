/* SPDX-License-Identifier: MIT
 *
 * reader.c: decodes chunks into batches of references.
 *
 * Mirrors writer.c: the same predictions, made from what has been decoded so far. What comes
 * from the file is checked before it is used: hashes first, then every count, number and
 * length against what the chunk holds; a decoder that is handed arbitrary bytes with right
 * hashes ends with an error, never outside its arrays.
 *
 * The chunk's definitions are turned into tables when it is opened. A slot's table entry is
 * half of a finished reference already (function, size, kind); per reference remains an
 * addition, two stores, and for executions that were not predicted a code.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "trace/format/chunk.h"

enum {
    /* Larger sizes in a header are damage, not data. */
    MOST_PAYLOAD_BYTES = 1 << 30,
    NO_PATH = 0, /* the path before a chunk's first */
};

struct slot {
    struct slot_state state;
    uint64_t meaning; /* second word of struct trace_reference, class not yet set */
};

struct superblock {
    uint64_t address;
    uint32_t function;
    uint32_t slot_count;
    size_t first_slot;
};

struct path {
    struct slot *slots;
    uint32_t slot_count;
    uint32_t instructions;
    uint32_t stores;
    uint32_t successor[2];
    uint32_t superblock, first; /* for copying */
    int64_t copied;             /* number at the writer copied to, -1 before */
};

struct function {
    char *name;
    char *object;
};

struct trace_reader {
    int fd;
    uint64_t offset;
    uint64_t chunk_offset;
    bool at_end;
    bool resumed; /* after a seek: restated mappings are told as events */
    char error[TRACE_ERROR_BYTES];
    char *description;
    uint64_t data_offset; /* of the first chunk behind the description */

    struct function *functions;
    size_t function_capacity;
    struct trace_totals totals;
    struct trace_totals whole;
    bool has_whole;

    /* The chunk at hand. */
    struct chunk_header header;
    struct bytes payload;
    struct bytes raw; /* its streams, decompressed */
    struct cursor stream[STREAMS];
    ZSTD_DCtx *zstd;
    struct superblock *superblocks;
    size_t superblock_count, superblock_capacity;
    struct path *paths;
    size_t path_count, path_capacity;
    struct slot *slots;
    size_t slot_count, slot_capacity;
    uint32_t introduced; /* paths met so far */
    uint32_t last_path;
    uint64_t executions; /* done */
    uint64_t execution_count;
    uint64_t next_event; /* execution before which it comes; UINT64_MAX after the last */
    uint32_t thread, class;
    struct recent_differences recent;
    struct bytes names; /* of the batch's events */

    struct trace_reference references[BATCH_REFERENCES + MOST_SLOTS];
    struct trace_event events[BATCH_EVENTS];
    size_t name_offset[BATCH_EVENTS];
    size_t event_count;
};

/* Errors and input. */

static int fail(struct trace_reader *reader, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int fail(struct trace_reader *reader, uint64_t offset, const char *format, ...)
{
    char what[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(reader->error, sizeof reader->error, "at byte %" PRIu64 ": %s", offset, what);
    reader->at_end = true;
    return -1;
}

static int short_of_memory(struct trace_reader *reader)
{
    return fail(reader, reader->offset, "not enough memory for this chunk");
}

/* Reads exactly so many bytes. Returns 1, 0 when there is not a single one, -1 on failure. */
static int read_all(struct trace_reader *reader, void *data, size_t bytes)
{
    size_t have = 0;
    while (have < bytes) {
        ssize_t got = read(reader->fd, (char *)data + have, bytes - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(reader, reader->offset + have, "cannot be read: %s", strerror(errno));
        if (got == 0)
            break;
        have += (size_t)got;
    }
    reader->offset += have;
    if (have == bytes)
        return 1;
    if (have == 0)
        return 0;
    return fail(reader, reader->offset, "the trace ends in the middle of a chunk");
}

/* Reads the next chunk's header and payload. Returns 1, 0 at the end of the file, -1. */
static int read_chunk(struct trace_reader *reader)
{
    struct chunk_header *header = &reader->header;
    uint64_t start = reader->chunk_offset = reader->offset;
    int status = read_all(reader, header, sizeof *header);
    if (status <= 0)
        return status;
    if (header->magic != TRACE_CHUNK_MAGIC ||
        header->header_hash != XXH3_64bits(header, offsetof(struct chunk_header, header_hash)))
        return fail(reader, start, "damaged chunk header");
    if (header->payload_bytes > MOST_PAYLOAD_BYTES)
        return fail(reader, start, "chunk of %" PRIu64 " bytes", header->payload_bytes);
    reader->payload.used = 0;
    if (!bytes_reserve(&reader->payload, header->payload_bytes + 1))
        return short_of_memory(reader);
    status = read_all(reader, reader->payload.data, header->payload_bytes);
    if (status < 0)
        return -1;
    if (status == 0 && header->payload_bytes > 0)
        return fail(reader, reader->offset, "the trace ends in the middle of a chunk");
    reader->payload.used = header->payload_bytes;
    if (XXH3_64bits(reader->payload.data, reader->payload.used) != header->payload_hash)
        return fail(reader, start, "damaged chunk: its checksum does not match");
    return 1;
}

/* Unpacking a chunk. */

static int unpack_streams(struct trace_reader *reader)
{
    struct stream_size sizes[STREAMS];
    if (reader->payload.used < sizeof sizes)
        return fail(reader, reader->chunk_offset, "chunk without streams");
    memcpy(sizes, reader->payload.data, sizeof sizes);
    uint64_t raw = 0, stored = sizeof sizes;
    for (int i = 0; i < STREAMS; i++) {
        raw += sizes[i].raw_bytes;
        stored += sizes[i].stored_bytes;
    }
    if (stored != reader->payload.used || raw > MOST_PAYLOAD_BYTES)
        return fail(reader, reader->chunk_offset, "a chunk's streams do not fit it");
    reader->raw.used = 0;
    if (!bytes_reserve(&reader->raw, raw + sizeof(uint64_t))) /* see take_difference() */
        return short_of_memory(reader);
    const uint8_t *in = reader->payload.data + sizeof sizes;
    uint8_t *out = reader->raw.data;
    for (int i = 0; i < STREAMS; i++) {
        if (sizes[i].raw_bytes == sizes[i].stored_bytes)
            memcpy(out, in, sizes[i].raw_bytes);
        else if (ZSTD_decompressDCtx(reader->zstd, out, sizes[i].raw_bytes, in,
                                     sizes[i].stored_bytes) != sizes[i].raw_bytes)
            return fail(reader, reader->chunk_offset, "stream %d cannot be decompressed", i);
        reader->stream[i] = (struct cursor){out, out + sizes[i].raw_bytes, false};
        in += sizes[i].stored_bytes;
        out += sizes[i].raw_bytes;
    }
    return 0;
}

/* A string from the stream, copied; NULL when it does not fit or memory is short. */
static char *get_string(struct cursor *cursor)
{
    uint64_t length = get_varint(cursor);
    if (cursor->failed || length > (uint64_t)(cursor->end - cursor->next)) {
        cursor->failed = true;
        return NULL;
    }
    char *text = strndup((const char *)cursor->next, length);
    cursor->next += length;
    return text;
}

static int read_functions(struct trace_reader *reader)
{
    enum { MOST_FUNCTIONS = 1 << 24 };
    struct cursor *in = &reader->stream[STREAM_FUNCTIONS];
    while (in->next < in->end) {
        uint64_t id = get_varint(in);
        struct function function = {get_string(in), NULL};
        function.object = get_string(in);
        if (!function.name || !function.object || id >= MOST_FUNCTIONS ||
            !array_reserve(&reader->functions, &reader->function_capacity, id, sizeof function)) {
            free(function.name);
            free(function.object);
            return fail(reader, reader->chunk_offset, "damaged names of functions");
        }
        if (reader->functions[id].name) { /* restated; what callers hold stays valid */
            free(function.name);
            free(function.object);
        } else {
            reader->functions[id] = function;
        }
    }
    return 0;
}

static int read_superblock(struct trace_reader *reader, uint64_t *last_address)
{
    struct cursor *in = &reader->stream[STREAM_DEFINITIONS];
    if (!array_reserve(&reader->superblocks, &reader->superblock_capacity, reader->superblock_count,
                       sizeof *reader->superblocks))
        return short_of_memory(reader);
    struct superblock *superblock = &reader->superblocks[reader->superblock_count++];
    *last_address += unzigzag(get_varint(in));
    superblock->address = *last_address;
    superblock->function = (uint32_t)get_varint(in);
    uint64_t count = get_varint(in);
    if (in->failed || count > MOST_SLOTS)
        return fail(reader, reader->chunk_offset, "damaged superblock");
    superblock->slot_count = (uint32_t)count;
    superblock->first_slot = reader->slot_count;
    if (!array_reserve(&reader->slots, &reader->slot_capacity, reader->slot_count + count,
                       sizeof *reader->slots))
        return short_of_memory(reader);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word = get_varint(in);
        reader->slots[reader->slot_count++] = (struct slot){
            {0, 0, 0}, superblock->function | (word >> 1 & 0xffff) << 32 | (word & 1) << 48};
    }
    return in->failed ? fail(reader, reader->chunk_offset, "damaged superblock") : 0;
}

static int read_path(struct trace_reader *reader, uint64_t *last_address)
{
    struct cursor *in = &reader->stream[STREAM_DEFINITIONS];
    uint64_t number = get_varint(in), first = get_varint(in), count = get_varint(in),
             instructions = get_varint(in);
    if (in->failed || number > reader->superblock_count ||
        (number == reader->superblock_count && read_superblock(reader, last_address) < 0))
        return reader->at_end ? -1 : fail(reader, reader->chunk_offset, "damaged path");
    const struct superblock *superblock = &reader->superblocks[number];
    if (first > superblock->slot_count || count > superblock->slot_count - first ||
        instructions > UINT32_MAX)
        return fail(reader, reader->chunk_offset, "a path goes beyond its superblock");
    if (!array_reserve(&reader->paths, &reader->path_capacity, reader->path_count,
                       sizeof(struct path)))
        return short_of_memory(reader);
    reader->paths[reader->path_count++] = (struct path){.slot_count = (uint32_t)count,
                                                        .instructions = (uint32_t)instructions,
                                                        .superblock = (uint32_t)number,
                                                        .first = (uint32_t)first,
                                                        .copied = -1};
    return 0;
}

static int read_definitions(struct trace_reader *reader)
{
    uint64_t last_address = 0;
    reader->superblock_count = reader->slot_count = 0;
    if (!array_reserve(&reader->paths, &reader->path_capacity, NO_PATH, sizeof(struct path)))
        return short_of_memory(reader);
    reader->paths[NO_PATH] = (struct path){.copied = -1};
    reader->path_count = 1;
    const struct cursor *in = &reader->stream[STREAM_DEFINITIONS];
    while (in->next < in->end)
        if (read_path(reader, &last_address) < 0)
            return -1;
    for (size_t i = 1; i < reader->path_count; i++) { /* the arrays have stopped moving */
        struct path *path = &reader->paths[i];
        path->slots =
            reader->slots + reader->superblocks[path->superblock].first_slot + path->first;
        for (uint32_t j = 0; j < path->slot_count; j++)
            path->stores += path->slots[j].meaning >> 48 & 1;
    }
    return 0;
}

static void find_next_event(struct trace_reader *reader)
{
    struct cursor *in = &reader->stream[STREAM_EVENTS];
    if (in->next == in->end)
        reader->next_event = UINT64_MAX;
    else
        reader->next_event += get_varint(in);
}

static int begin_data_chunk(struct trace_reader *reader)
{
    const struct chunk_header *header = &reader->header;
    if (header->class >= TRACE_CLASSES)
        return fail(reader, reader->chunk_offset, "class %u", header->class);
    if (unpack_streams(reader) < 0 || read_functions(reader) < 0 || read_definitions(reader) < 0)
        return -1;
    if (reader->resumed)
        reader->totals = header->start;
    else if (memcmp(&reader->totals, &header->start, sizeof reader->totals) != 0)
        return fail(reader, reader->chunk_offset, "chunk %" PRIu64 " does not follow the last one",
                    header->sequence);
    reader->execution_count =
        (uint64_t)(reader->stream[STREAM_TOKENS].end - reader->stream[STREAM_TOKENS].next);
    reader->executions = reader->next_event = 0;
    reader->introduced = 0;
    reader->last_path = NO_PATH;
    reader->recent = (struct recent_differences){0, 0};
    reader->thread = header->thread;
    reader->class = header->class;
    find_next_event(reader);
    return 1;
}

static int read_end(struct trace_reader *reader)
{
    if (reader->payload.used < sizeof reader->whole)
        return fail(reader, reader->chunk_offset, "damaged end");
    memcpy(&reader->whole, reader->payload.data, sizeof reader->whole);
    reader->has_whole = true;
    reader->at_end = true;
    uint64_t end_offset; /* which serves those who start from the file's end */
    int status = read_all(reader, &end_offset, sizeof end_offset);
    char more;
    if (status > 0 && (status = read_all(reader, &more, sizeof more)) > 0)
        return fail(reader, reader->offset - 1, "more follows the trace's end and is not read");
    return status;
}

/* Goes on to the next chunk with data. Returns 1, 0 at the trace's end, -1. */
static int next_data_chunk(struct trace_reader *reader)
{
    while (true) {
        int status = read_chunk(reader);
        if (status < 0)
            return -1;
        if (status == 0)
            return fail(reader, reader->offset,
                        "the trace ends without its closing chunk: it was cut short");
        switch (reader->header.type) {
        case CHUNK_DATA:
            return begin_data_chunk(reader);
        case CHUNK_END:
            return read_end(reader);
        case CHUNK_DESCRIPTION:
            break;
        default:
            return fail(reader, reader->chunk_offset, "chunk of unknown type %u",
                        reader->header.type);
        }
    }
}

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

/* Decodes the slots of an execution that was not as predicted. Returns the end of the
 * references written; NULL when a code is wrong. With keep_absent, accesses that did not take
 * place stand as TRACE_ABSENT. Which code comes next cannot be foretold, so there is one branch on
 * it for what is common: whether the difference is one that is known or is read. */
static struct trace_reference *decode_slots(struct trace_reader *reader, struct run *run,
                                            const struct path *path, struct trace_reference *out,
                                            bool keep_absent)
{
    struct cursor *codes = &reader->stream[STREAM_CODES];
    if ((size_t)(codes->end - codes->next) < path->slot_count)
        return NULL;
    const uint8_t *code = codes->next;
    codes->next += path->slot_count;
    uint64_t class = (uint64_t)reader->class << 56;
    uint64_t newest = reader->recent.newest, older = reader->recent.older;
    for (uint32_t i = 0; i < path->slot_count; i++) {
        struct slot *slot = &path->slots[i];
        uint64_t difference = slot->state.stride;
        if (code[i] < CODE_DELTA8) {
            difference = code[i] == CODE_RECENT ? newest : difference;
            difference = code[i] == CODE_SAME ? 0 : difference;
            difference = code[i] == CODE_OLDER ? older : difference;
        } else if (__builtin_expect(code[i] < CODE_ABSENT, 1)) {
            unsigned log2_bytes = code[i] - CODE_DELTA8;
            difference = take_difference(&reader->stream[STREAM_DELTAS8 + log2_bytes], log2_bytes);
        } else if (code[i] == CODE_ABSENT) {
            if (keep_absent)
                put_reference(out++, TRACE_ABSENT, slot->meaning);
            run->stores -= slot->meaning >> 48 & 1;
            continue;
        } else {
            return NULL;
        }
        bool told = code[i] >= CODE_OLDER;
        older = told ? newest : older;
        newest = told ? difference : newest;
        /* As slot_moved(); and where the stride was right, as slot_as_predicted(). */
        slot->state.stride = difference == slot->state.difference ? difference : slot->state.stride;
        slot->state.difference = difference;
        slot->state.last += difference;
        put_reference(out++, slot->state.last, slot->meaning | class);
    }
    reader->recent = (struct recent_differences){newest, older};
    return out;
}

static int bad_execution(struct trace_reader *reader)
{
    return fail(reader, reader->chunk_offset, "damaged chunk: execution %" PRIu64 " makes no sense",
                reader->executions);
}

/* Decodes one execution behind `out`; returns where its references end, NULL on damage. */
static inline __attribute__((always_inline)) struct trace_reference *decode_execution(
    struct trace_reader *reader, struct run *run, uint64_t class, struct trace_reference *out,
    bool keep_absent)
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
        return decode_slots(reader, run, path, out, keep_absent);
    struct slot *slot = path->slots;
    for (struct trace_reference *end = out + path->slot_count; out < end; out++, slot++) {
        uint64_t stride = slot->state.stride, address = slot->state.last + stride;
        slot->state.last = address;
        slot->state.difference = stride;
        put_reference(out, address, slot->meaning | class);
    }
    return out;
}

/* Events. */

static int decode_event(struct trace_reader *reader, struct cursor *in, struct trace_event *event)
{
    uint64_t type = get_varint(in);
    if (type == 0 || type >= TRACE_EVENT_TYPES)
        return fail(reader, reader->chunk_offset, "event of unknown type %" PRIu64, type);
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
            return fail(reader, reader->chunk_offset, "damaged event");
        memcpy(reader->names.data + reader->names.used, in->next, length);
        reader->names.used += length;
        reader->names.data[reader->names.used++] = 0;
        in->next += length;
    }
    if (in->failed || (event->type == TRACE_EVENT_CLASS && event->value[0] >= TRACE_CLASSES))
        return fail(reader, reader->chunk_offset, "damaged event");
    return 0;
}

static int next_event(struct trace_reader *reader)
{
    struct trace_event *event = &reader->events[reader->event_count];
    if (decode_event(reader, &reader->stream[STREAM_EVENTS], event) < 0)
        return -1;
    if (event->type == TRACE_EVENT_CLASS)
        reader->class = (uint32_t)event->value[0];
    else if (event->type == TRACE_EVENT_THREAD)
        reader->thread = (uint32_t)event->value[0];
    event->thread = reader->thread;
    reader->event_count++;
    reader->totals.events++;
    reader->totals.allocated_bytes += event_bytes(event);
    find_next_event(reader);
    return reader->stream[STREAM_EVENTS].failed
               ? fail(reader, reader->chunk_offset, "damaged event")
               : 0;
}

/* After a seek: the mappings of this moment, as events. */
static int restate_regions(struct trace_reader *reader)
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

/* Batches. */

static bool next_event_switches_thread(const struct trace_reader *reader)
{
    const struct cursor *in = &reader->stream[STREAM_EVENTS];
    return reader->next_event == reader->executions && in->next < in->end &&
           *in->next == TRACE_EVENT_THREAD;
}

/* Decodes executions up to the next event, or until the batch is full. */
static struct trace_reference *decode_run(struct trace_reader *reader, struct trace_reference *out)
{
    const struct trace_reference *start = out, *full = reader->references + BATCH_REFERENCES;
    uint64_t end =
        reader->next_event < reader->execution_count ? reader->next_event : reader->execution_count;
    uint64_t class = (uint64_t)reader->class << 56;
    struct run run = begin_run(reader);
    const uint8_t *last_token = run.token + (end - reader->executions);
    struct trace_reference *after = out;
    while (after && run.token < last_token && after < full) {
        out = after;
        after = decode_execution(reader, &run, class, out, false);
    }
    end_run(reader, &run);
    if (!after) {
        bad_execution(reader);
        return NULL;
    }
    out = after;
    reader->totals.references += (uint64_t)(out - start);
    reader->totals.by_class[reader->class] += (uint64_t)(out - start);
    return out;
}

static bool chunk_is_done(const struct trace_reader *reader)
{
    return reader->executions == reader->execution_count && reader->next_event == UINT64_MAX;
}

/* A chunk must end as its header says, and as the writer left it. */
static int check_chunk_end(struct trace_reader *reader)
{
    const uint64_t *start = (const uint64_t *)&reader->header.start;
    const uint64_t *added = (const uint64_t *)&reader->header.added;
    const uint64_t *now = (const uint64_t *)&reader->totals;
    bool right = true;
    for (size_t i = 0; i < sizeof reader->totals / sizeof *now; i++)
        right = right && start[i] + added[i] == now[i];
    for (int i = 0; i < STREAMS; i++)
        right = right && !reader->stream[i].failed;
    return right ? 0 : fail(reader, reader->chunk_offset, "a chunk's totals do not match it");
}

static void fill_batch(struct trace_reader *reader, struct trace_batch *batch, size_t count)
{
    for (size_t i = 0; i < reader->event_count; i++)
        reader->events[i].name = reader->events[i].type == TRACE_EVENT_MAP
                                     ? (const char *)reader->names.data + reader->name_offset[i]
                                     : NULL;
    batch->thread = reader->thread;
    batch->count = count;
    batch->references = reader->references;
    batch->event_count = reader->event_count;
    batch->events = reader->events;
}

static bool chunk_is_open(const struct trace_reader *reader)
{
    return reader->header.type == CHUNK_DATA && !reader->at_end;
}

/* Opens the next chunk when the present one is used up. Returns 1, 0 at the end, -1. */
static int ensure_chunk(struct trace_reader *reader)
{
    if (chunk_is_open(reader)) {
        if (!chunk_is_done(reader))
            return 1;
        if (check_chunk_end(reader) < 0)
            return -1;
    }
    if (reader->at_end)
        return reader->error[0] ? -1 : 0;
    return next_data_chunk(reader);
}

int trace_reader_next(struct trace_reader *reader, struct trace_batch *batch)
{
    int status = ensure_chunk(reader);
    if (status <= 0)
        return status;
    reader->event_count = 0;
    reader->names.used = 0;
    batch->first_reference = reader->totals.references;
    batch->instruction = reader->totals.instructions;
    struct trace_reference *out = reader->references;
    const struct trace_reference *full = reader->references + BATCH_REFERENCES;
    if (reader->resumed && restate_regions(reader) < 0)
        return -1;
    while (!reader->resumed && !chunk_is_done(reader) && out < full &&
           reader->event_count < BATCH_EVENTS) {
        if (reader->next_event > reader->executions) {
            if (reader->executions == reader->execution_count)
                return fail(reader, reader->chunk_offset, "an event lies beyond its chunk");
            out = decode_run(reader, out);
            if (!out)
                return -1;
        } else if (next_event_switches_thread(reader) && out > reader->references) {
            break;
        } else if (next_event(reader) < 0) {
            return -1;
        }
    }
    fill_batch(reader, batch, (size_t)(out - reader->references));
    return 1;
}

/* Copying. */

/* The writer's number for a path, described to it first if need be. */
static int64_t copied_path(struct trace_reader *reader, struct trace_writer *writer,
                           struct path *path)
{
    if (path->copied >= 0)
        return path->copied;
    const struct superblock *superblock = &reader->superblocks[path->superblock];
    struct trace_slot *slots = calloc(path->slot_count + 1, sizeof *slots);
    if (!slots)
        return -1;
    for (uint32_t i = 0; i < path->slot_count; i++) {
        slots[i].size = (uint16_t)(path->slots[i].meaning >> 32);
        slots[i].kind = path->slots[i].meaning >> 48 & 1;
    }
    const char *object, *name = trace_reader_function(reader, superblock->function, &object);
    int64_t copy = -1;
    if (trace_writer_function(writer, superblock->function, name, object) == 0)
        copy = trace_writer_superblock(writer, superblock->address, superblock->function,
                                       path->slot_count, slots);
    free(slots);
    if (copy >= 0)
        path->copied =
            trace_writer_path(writer, (uint32_t)copy, 0, path->slot_count, path->instructions);
    return copy < 0 ? -1 : path->copied;
}

/* The path shortened to the slots that still fit. */
static int64_t shortened_path(struct trace_reader *reader, struct trace_writer *writer,
                              struct path *path, uint32_t slots)
{
    struct path part = *path;
    part.slot_count = slots;
    part.copied = -1;
    return copied_path(reader, writer, &part);
}

static int copy_execution(struct trace_reader *reader, struct trace_writer *writer, uint64_t count,
                          int *write_error)
{
    static _Thread_local uint64_t addresses[MOST_SLOTS];
    struct run run = begin_run(reader);
    const struct trace_reference *end =
        decode_execution(reader, &run, (uint64_t)reader->class << 56, reader->references, true);
    end_run(reader, &run);
    if (!end)
        return bad_execution(reader);
    uint32_t slots = (uint32_t)(end - reader->references), kept = 0;
    uint64_t present = 0, room = count - trace_writer_totals(writer)->references;
    for (; kept < slots && (present < room || reader->references[kept].address == TRACE_ABSENT);
         kept++) {
        addresses[kept] = reader->references[kept].address;
        present += addresses[kept] != TRACE_ABSENT;
    }
    for (uint32_t i = kept; i < slots; i++)
        present += reader->references[i].address != TRACE_ABSENT;
    reader->totals.references += present;
    reader->totals.by_class[reader->class] += present;
    struct path *path = &reader->paths[reader->last_path];
    int64_t number = kept == slots ? copied_path(reader, writer, path)
                                   : shortened_path(reader, writer, path, kept);
    errno = ENOMEM;
    if (number < 0 || trace_writer_execute(writer, (uint32_t)number, addresses) < 0) {
        *write_error = errno;
        return -1;
    }
    return 0;
}

int trace_copy(struct trace_reader *reader, struct trace_writer *writer, uint64_t count,
               int *write_error)
{
    *write_error = 0;
    while (trace_writer_totals(writer)->references < count) {
        int status = ensure_chunk(reader);
        if (status <= 0)
            return status;
        if (reader->next_event <= reader->executions) {
            reader->event_count = 0;
            reader->names.used = 0;
            if (next_event(reader) < 0)
                return -1;
            struct trace_batch batch;
            fill_batch(reader, &batch, 0);
            if (trace_writer_event(writer, reader->events) < 0) {
                *write_error = errno;
                return -1;
            }
        } else if (reader->executions == reader->execution_count) {
            return fail(reader, reader->chunk_offset, "an event lies beyond its chunk");
        } else if (copy_execution(reader, writer, count, write_error) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Seeking. */

/* The file's data chunk that holds a reference, found by going from header to header. */
int trace_reader_seek(struct trace_reader *reader, uint64_t reference)
{
    struct chunk_header header;
    uint64_t offset = reader->data_offset, found = 0;
    reader->error[0] = 0;
    while (true) {
        ssize_t got = pread(reader->fd, &header, sizeof header, (off_t)offset);
        if (got < 0)
            return fail(reader, offset, "cannot be sought: %s", strerror(errno));
        if (got < (ssize_t)sizeof header || header.magic != TRACE_CHUNK_MAGIC ||
            header.header_hash != XXH3_64bits(&header, offsetof(struct chunk_header, header_hash)))
            return fail(reader, offset, "no chunk with reference %" PRIu64 " before the damage",
                        reference);
        if (header.type == CHUNK_END)
            return fail(reader, offset, "reference %" PRIu64 " is beyond the end, %" PRIu64,
                        reference, header.start.references);
        found = offset;
        if (header.type == CHUNK_DATA &&
            reference < header.start.references + header.added.references)
            break;
        offset += sizeof header + header.payload_bytes;
    }
    if (lseek(reader->fd, (off_t)found, SEEK_SET) < 0)
        return fail(reader, found, "cannot be sought: %s", strerror(errno));
    reader->offset = found;
    reader->at_end = false;
    reader->resumed = true;
    reader->header.type = CHUNK_DESCRIPTION; /* no chunk is open */
    return 0;
}

/* Opening and closing. */

static int open_trace(struct trace_reader *reader)
{
    struct trace_file_header header;
    int status = read_all(reader, &header, sizeof header);
    if (status < 0)
        return -1;
    if (status == 0)
        return fail(reader, 0, "the file is empty");
    if (memcmp(header.magic, TRACE_FILE_MAGIC, sizeof header.magic) != 0)
        return fail(reader, 0, "this is no allotrope trace; allotrope record makes one");
    if (header.version != TRACE_VERSION || header.header_bytes != sizeof(struct chunk_header))
        return fail(reader, 8, "format version %u; this program reads version %d", header.version,
                    TRACE_VERSION);
    status = read_chunk(reader);
    if (status < 0)
        return -1;
    if (status == 0 || reader->header.type != CHUNK_DESCRIPTION)
        return fail(reader, reader->chunk_offset, "the trace has no description");
    reader->description = strndup((const char *)reader->payload.data, reader->payload.used);
    reader->data_offset = reader->offset;
    return reader->description ? 0 : short_of_memory(reader);
}

struct trace_reader *trace_reader_open(int fd, char *error)
{
    struct trace_reader *reader = calloc(1, sizeof *reader);
    if (!reader || !(reader->zstd = ZSTD_createDCtx())) {
        free(reader);
        snprintf(error, TRACE_ERROR_BYTES, "not enough memory");
        return NULL;
    }
    reader->fd = fd;
    if (open_trace(reader) == 0)
        return reader;
    snprintf(error, TRACE_ERROR_BYTES, "%s", reader->error);
    trace_reader_close(reader);
    return NULL;
}

const char *trace_reader_description(const struct trace_reader *reader)
{
    return reader->description;
}

const char *trace_reader_function(const struct trace_reader *reader, uint32_t id,
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

const struct trace_totals *trace_reader_totals(const struct trace_reader *reader)
{
    return &reader->totals;
}

const struct trace_totals *trace_reader_whole(const struct trace_reader *reader)
{
    return reader->has_whole ? &reader->whole : NULL;
}

const char *trace_reader_error(const struct trace_reader *reader)
{
    return reader->error;
}

void trace_reader_close(struct trace_reader *reader)
{
    for (size_t i = 0; i < reader->function_capacity; i++) {
        free(reader->functions[i].name);
        free(reader->functions[i].object);
    }
    free(reader->functions);
    free(reader->payload.data);
    free(reader->raw.data);
    free(reader->superblocks);
    free(reader->paths);
    free(reader->slots);
    free(reader->names.data);
    free(reader->description);
    ZSTD_freeDCtx(reader->zstd);
    free(reader);
}
