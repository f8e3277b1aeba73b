/* SPDX-License-Identifier: MIT
 *
 * reader.c: goes from chunk to chunk and hands out batches of references; see reader_state.h.
 * unpack.c verifies the checksums of each chunk that is read; a seek verifies heads alone.
 */
#include "trace/format/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "trace/format/reader_state.h"

/* Errors. */

int reader_fail(struct trace_reader *reader, uint64_t offset, const char *format, ...)
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

int reader_short_of_memory(struct trace_reader *reader)
{
    return reader_fail(reader, reader->offset, "not enough memory for this chunk");
}

/* Chunks. */

/* Whether the chunk at hand begins where the one before has ended. */
static bool chunk_follows(const struct trace_reader *reader)
{
    return memcmp(&reader->totals, &reader->header.start, sizeof reader->totals) == 0;
}

static int begin_data_chunk(struct trace_reader *reader)
{
    const struct chunk_header *header = &reader->header;
    if (header->class >= TRACE_CLASSES)
        return reader_fail(reader, reader->chunk_offset, "class %u", header->class);
    if (reader_unpack_chunk(reader) < 0)
        return -1;
    if (reader->resumed)
        reader->totals = header->start;
    else if (!chunk_follows(reader))
        return reader_fail(reader, reader->chunk_offset,
                           "chunk %" PRIu64 " does not follow the last one", header->sequence);
    reader->execution_count =
        (uint64_t)(reader->stream[STREAM_TOKENS].end - reader->stream[STREAM_TOKENS].next);
    reader->executions = reader->next_event = 0;
    reader->introduced = 0;
    reader->last_path = NO_PATH;
    reader->recent = (struct recent_differences){0, 0};
    reader->stack = 0;
    reader->thread = header->thread;
    reader->class = header->class;
    reader_find_next_event(reader);
    return 1;
}

static int read_end(struct trace_reader *reader)
{
    if (!chunk_follows(reader))
        return reader_fail(reader, reader->chunk_offset, "chunks are missing before the end");
    if (reader->payload.used < sizeof reader->whole)
        return reader_fail(reader, reader->chunk_offset, "damaged end");
    memcpy(&reader->whole, reader->payload.data, sizeof reader->whole);
    reader->has_whole = true;
    reader->at_end = true;
    uint64_t end_offset; /* which serves those who start from the file's end */
    int status = reader_read_all(reader, &end_offset, sizeof end_offset);
    char more;
    if (status > 0 && (status = reader_read_all(reader, &more, sizeof more)) > 0)
        return reader_fail(reader, reader->offset - 1,
                           "more follows the trace's end and is not read");
    return status;
}

/* Goes on to the next chunk with data. Returns 1, 0 at the trace's end, -1. */
static int next_data_chunk(struct trace_reader *reader)
{
    while (true) {
        int status = reader_read_chunk(reader);
        if (status < 0)
            return -1;
        if (status == 0)
            return reader_fail(reader, reader->offset,
                               "the trace ends without its closing chunk: it was cut short");
        switch (reader->header.type) {
        case CHUNK_DATA:
            return begin_data_chunk(reader);
        case CHUNK_END:
            return read_end(reader);
        case CHUNK_DESCRIPTION:
            break;
        default:
            return reader_fail(reader, reader->chunk_offset, "chunk of unknown type %u",
                               reader->header.type);
        }
    }
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
    return right ? 0
                 : reader_fail(reader, reader->chunk_offset, "a chunk's totals do not match it");
}

static bool chunk_is_open(const struct trace_reader *reader)
{
    return reader->header.type == CHUNK_DATA && !reader->at_end;
}

int reader_ensure_chunk(struct trace_reader *reader)
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

/* Batches. */

void reader_fill_batch(struct trace_reader *reader, struct trace_batch *batch, size_t count)
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

int trace_reader_next(struct trace_reader *reader, struct trace_batch *batch)
{
    int status = reader_ensure_chunk(reader);
    if (status <= 0)
        return status;
    reader->event_count = 0;
    reader->names.used = 0;
    batch->first_reference = reader->totals.references;
    batch->instruction = reader->totals.instructions;
    struct trace_reference *out = reader->references;
    const struct trace_reference *full = reader->references + BATCH_REFERENCES;
    if (reader->resumed && reader_restate_regions(reader) < 0)
        return -1;
    while (!reader->resumed && !chunk_is_done(reader) && out < full &&
           reader->event_count < BATCH_EVENTS) {
        if (reader->next_event > reader->executions) {
            if (reader->executions == reader->execution_count)
                return reader_fail(reader, reader->chunk_offset, "an event lies beyond its chunk");
            out = reader_decode_run(reader, out);
            if (!out)
                return -1;
        } else if (reader_next_event_switches_thread(reader) && out > reader->references) {
            break;
        } else if (reader_next_event(reader) < 0) {
            return -1;
        }
    }
    reader_fill_batch(reader, batch, (size_t)(out - reader->references));
    return 1;
}

/* Seeking. */

/* Reads the head of a chunk. Returns 1, 0 where no sound one is, -1 on failure. */
static int read_head_at(struct trace_reader *reader, uint64_t offset, struct chunk_header *header)
{
    ssize_t got = pread(reader->fd, header, sizeof *header, (off_t)offset);
    if (got < 0)
        return reader_fail(reader, offset, "cannot be sought: %s", strerror(errno));
    return got == (ssize_t)sizeof *header && header->magic == TRACE_CHUNK_MAGIC &&
           header->header_hash == XXH3_64bits(header, offsetof(struct chunk_header, header_hash)) &&
           header->payload_bytes <= MOST_PAYLOAD_BYTES;
}

int trace_reader_count(struct trace_reader *reader, uint64_t *references)
{
    struct chunk_header header;
    uint64_t offset = reader->data_offset;
    int status;
    *references = 0;
    while ((status = read_head_at(reader, offset, &header)) > 0 && header.type == CHUNK_DATA) {
        *references = header.start.references + header.added.references;
        offset += sizeof header + header.payload_bytes;
    }
    return status < 0 ? -1 : 0;
}

/* The file's data chunk that holds a reference, found by going from header to header. */
int trace_reader_seek(struct trace_reader *reader, uint64_t reference)
{
    struct chunk_header header;
    uint64_t offset = reader->data_offset, found = 0;
    reader->error[0] = 0;
    while (true) {
        int status = read_head_at(reader, offset, &header);
        if (status < 0)
            return -1;
        if (status == 0)
            return reader_fail(reader, offset,
                               "no chunk with reference %" PRIu64 " before the damage", reference);
        if (header.type == CHUNK_END)
            return reader_fail(reader, offset, "reference %" PRIu64 " is beyond the end, %" PRIu64,
                               reference, header.start.references);
        found = offset;
        if (header.type == CHUNK_DATA &&
            reference < header.start.references + header.added.references)
            break;
        offset += sizeof header + header.payload_bytes;
    }
    if (lseek(reader->fd, (off_t)found, SEEK_SET) < 0)
        return reader_fail(reader, found, "cannot be sought: %s", strerror(errno));
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
    int status = reader_read_all(reader, &header, sizeof header);
    if (status < 0)
        return -1;
    if (status == 0)
        return reader_fail(reader, 0, "the file is empty");
    if (memcmp(header.magic, TRACE_FILE_MAGIC, sizeof header.magic) != 0)
        return reader_fail(reader, 0, "this is no allotrope trace; allotrope record makes one");
    if (header.version != TRACE_VERSION || header.header_bytes != sizeof(struct chunk_header))
        return reader_fail(reader, 8, "format version %u; this program reads version %d",
                           header.version, TRACE_VERSION);
    status = reader_read_chunk(reader);
    if (status < 0)
        return -1;
    if (status == 0 || reader->header.type != CHUNK_DESCRIPTION)
        return reader_fail(reader, reader->chunk_offset, "the trace has no description");
    reader->description = strndup((const char *)reader->payload.data, reader->payload.used);
    reader->data_offset = reader->offset;
    return reader->description ? 0 : reader_short_of_memory(reader);
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
    return functions_find(&reader->functions, id, object);
}

void trace_reader_by_instruction(struct trace_reader *reader)
{
    reader->instructions.in_use = true;
}

const struct instruction *trace_reader_instruction(const struct trace_reader *reader,
                                                   uint32_t number)
{
    return instructions_find(&reader->instructions, number);
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
    functions_free(&reader->functions);
    instructions_free(&reader->instructions);
    free(reader->payload.data);
    free(reader->raw.data);
    free(reader->superblocks);
    free(reader->paths);
    free(reader->slots);
    free(reader->states);
    free(reader->makers);
    free(reader->names.data);
    free(reader->description);
    ZSTD_freeDCtx(reader->zstd);
    free(reader);
}
