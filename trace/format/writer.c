/* SPDX-License-Identifier: MIT
 *
 * writer.c: opens and closes a trace, keeps what the caller describes, and puts chunks into the
 * file; see writer_state.h.
 */
#include "trace/format/writer.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "trace/base/array.h"
#include "trace/base/write_all.h"
#include "trace/format/writer_state.h"

/* Chunks. */

static int put(struct trace_writer *writer, const void *data, size_t bytes)
{
    if (writer->error == 0 && write_all(writer->fd, data, bytes) < 0)
        writer->error = errno;
    if (writer->error != 0) {
        errno = writer->error; /* nothing follows half a chunk */
        return -1;
    }
    writer->offset += bytes;
    return 0;
}

static int write_chunk(struct trace_writer *writer, enum chunk_type type, const void *payload,
                       size_t bytes)
{
    struct chunk_header *header = &writer->header;
    header->magic = TRACE_CHUNK_MAGIC;
    header->type = type;
    header->sequence = writer->sequence++;
    header->payload_bytes = bytes;
    header->payload_hash = XXH3_64bits(payload, bytes);
    header->header_hash = XXH3_64bits(header, offsetof(struct chunk_header, header_hash));
    if (put(writer, header, sizeof *header) < 0)
        return -1;
    return put(writer, payload, bytes);
}

/* Puts the streams one after the other, compressed where that makes them smaller. */
static int pack_streams(struct trace_writer *writer)
{
    struct bytes *out = &writer->compressed;
    struct stream_size sizes[STREAMS];
    out->used = 0;
    if (!bytes_reserve(out, sizeof sizes))
        return -1;
    out->used = sizeof sizes;
    for (int i = 0; i < STREAMS; i++) {
        struct bytes *in = &writer->stream[i];
        if (!bytes_reserve(out, ZSTD_compressBound(in->used)))
            return -1;
        size_t stored =
            ZSTD_compressCCtx(writer->zstd, out->data + out->used, out->capacity - out->used,
                              in->data, in->used, writer->level);
        if (ZSTD_isError(stored) || stored >= in->used) {
            stored = in->used;
            if (stored > 0)
                memcpy(out->data + out->used, in->data, stored);
        }
        sizes[i] = (struct stream_size){(uint32_t)in->used, (uint32_t)stored};
        out->used += stored;
    }
    memcpy(out->data, sizes, sizeof sizes);
    return 0;
}

static void subtract_totals(struct trace_totals *result, const struct trace_totals *from,
                            const struct trace_totals *what)
{
    uint64_t *r = (uint64_t *)result;
    const uint64_t *f = (const uint64_t *)from, *w = (const uint64_t *)what;
    for (size_t i = 0; i < sizeof *result / sizeof *r; i++)
        r[i] = f[i] - w[i];
}

/* Room for all that the executions of one chunk can come to; most of it is never touched. */
static bool reserve_streams(struct trace_writer *writer)
{
    /* A word may be put behind a stream's end that does not move the end. */
    const size_t slots = CHUNK_REFERENCES + MOST_SLOTS + sizeof(uint64_t);
    bool room = bytes_reserve(&writer->stream[STREAM_TOKENS], CHUNK_EXECUTIONS) &&
                bytes_reserve(&writer->stream[STREAM_IDS16],
                              2 * (size_t)CHUNK_EXECUTIONS + sizeof(uint64_t)) &&
                bytes_reserve(&writer->stream[STREAM_IDS32], 4 * (size_t)CHUNK_EXECUTIONS) &&
                bytes_reserve(&writer->stream[STREAM_CODES], slots);
    for (unsigned width = 0; width < 4; width++)
        room = room && bytes_reserve(&writer->stream[STREAM_DELTAS8 + width], slots << width);
    return room;
}

/* What a chunk begins with: clean predictions, the clocks, and the mappings. */
static int begin_chunk(struct trace_writer *writer)
{
    writer->chunk++;
    writer->number_of_paths = writer->number_of_superblocks = 0;
    writer->last_path = 0;
    writer->last_address = 0;
    writer->executions = writer->event_executions = 0;
    writer->recent = (struct recent_differences){0, 0};
    writer->paths[0].successor[0] = writer->paths[0].successor[1] = 0;
    writer->header.start = writer->totals;
    writer->header.thread = writer->thread;
    writer->header.class = writer->class;
    for (int i = 0; i < STREAMS; i++)
        writer->stream[i].used = 0;
    for (size_t i = 0; i < writer->mapping_count; i++) {
        const struct mapping *mapping = &writer->mappings[i];
        struct trace_event event = {.type = TRACE_EVENT_MAP,
                                    .value = {mapping->start, mapping->bytes, mapping->kind},
                                    .name = mapping->name};
        if (!put_event(&writer->stream[STREAM_REGIONS], &event))
            return -1;
    }
    return 0;
}

int writer_end_chunk(struct trace_writer *writer)
{
    if (writer->executions == 0 && writer->stream[STREAM_EVENTS].used == 0)
        return 0;
    struct chunk_index_entry entry = {writer->offset, writer->header.start.references,
                                      writer->totals.references - writer->header.start.references};
    subtract_totals(&writer->header.added, &writer->totals, &writer->header.start);
    if (!bytes_reserve(&writer->index, sizeof entry) || pack_streams(writer) < 0)
        return -1;
    memcpy(writer->index.data + writer->index.used, &entry, sizeof entry);
    writer->index.used += sizeof entry;
    if (write_chunk(writer, CHUNK_DATA, writer->compressed.data, writer->compressed.used) < 0)
        return -1;
    return begin_chunk(writer);
}

/* What the caller describes. */

int trace_writer_function(struct trace_writer *writer, uint32_t id, const char *name,
                          const char *object)
{
    if (!array_reserve(&writer->functions, &writer->function_capacity, id,
                       sizeof *writer->functions))
        return -1;
    struct writer_function *function = &writer->functions[id];
    free(function->name);
    free(function->object);
    function->name = strdup(name);
    function->object = strdup(object);
    function->known_in = 0;
    return function->name && function->object ? 0 : -1;
}

int64_t trace_writer_superblock(struct trace_writer *writer, uint64_t address, uint32_t function,
                                uint32_t slot_count, const struct trace_slot *slots)
{
    if (slot_count > MOST_SLOTS ||
        !array_reserve(&writer->superblocks, &writer->superblock_capacity, writer->superblock_count,
                       sizeof *writer->superblocks))
        return -1;
    struct writer_superblock *superblock = &writer->superblocks[writer->superblock_count];
    *superblock = (struct writer_superblock){
        .address = address,
        .function = function,
        .slot_count = slot_count,
        .slots = calloc(slot_count + 1, sizeof *slots),
        .states = calloc(slot_count + 1, sizeof *superblock->states),
    };
    if (!superblock->slots || !superblock->states)
        return -1;
    if (slot_count > 0)
        memcpy(superblock->slots, slots, slot_count * sizeof *slots);
    return (int64_t)writer->superblock_count++;
}

int64_t trace_writer_path(struct trace_writer *writer, uint32_t superblock, uint32_t first,
                          uint32_t end, uint32_t instructions)
{
    if (superblock >= writer->superblock_count || first > end ||
        end > writer->superblocks[superblock].slot_count ||
        !array_reserve(&writer->paths, &writer->path_capacity, writer->path_count,
                       sizeof *writer->paths))
        return -1;
    uint32_t stores = 0;
    for (uint32_t i = first; i < end; i++)
        stores += writer->superblocks[superblock].slots[i].kind == TRACE_STORE;
    writer->paths[writer->path_count] = (struct writer_path){
        .states = writer->superblocks[superblock].states + first,
        .count = end - first,
        .instructions = instructions,
        .stores = stores,
        .superblock = superblock,
        .first = first,
    };
    if (end - first > writer->most_slots)
        writer->most_slots = end - first;
    return (int64_t)writer->path_count++;
}

/* Opening and closing. */

struct trace_writer *trace_writer_open(int fd, const char *description, int level)
{
    struct trace_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return NULL;
    writer->fd = fd;
    writer->level = level;
    writer->zstd = ZSTD_createCCtx();
    struct trace_file_header header = {TRACE_FILE_MAGIC, TRACE_VERSION,
                                       sizeof(struct chunk_header)};
    struct trace_slot none = {0, 0};
    if (writer->zstd && reserve_streams(writer) &&
        trace_writer_superblock(writer, 0, 0, 0, &none) == 0 &&
        trace_writer_path(writer, 0, 0, 0, 0) == 0 && put(writer, &header, sizeof header) == 0 &&
        write_chunk(writer, CHUNK_DESCRIPTION, description, strlen(description)) == 0 &&
        begin_chunk(writer) == 0)
        return writer;
    trace_writer_close(writer);
    return NULL;
}

const struct trace_totals *trace_writer_totals(const struct trace_writer *writer)
{
    return &writer->totals;
}

uint64_t trace_writer_bytes(const struct trace_writer *writer)
{
    return writer->offset;
}

void trace_writer_whole(struct trace_writer *writer, const struct trace_totals *whole)
{
    writer->whole = *whole;
    writer->has_whole = true;
}

static int write_end(struct trace_writer *writer)
{
    struct bytes payload = {NULL, 0, 0};
    if (writer_end_chunk(writer) < 0 ||
        !bytes_reserve(&payload, sizeof writer->whole + writer->index.used))
        return -1;
    memcpy(payload.data, writer->has_whole ? &writer->whole : &writer->totals,
           sizeof writer->whole);
    if (writer->index.used > 0)
        memcpy(payload.data + sizeof writer->whole, writer->index.data, writer->index.used);
    payload.used = sizeof writer->whole + writer->index.used;
    memset(&writer->header.added, 0, sizeof writer->header.added);
    uint64_t end_offset = writer->offset;
    int status = write_chunk(writer, CHUNK_END, payload.data, payload.used);
    free(payload.data);
    return status < 0 ? status : put(writer, &end_offset, sizeof end_offset);
}

static void free_writer(struct trace_writer *writer)
{
    for (size_t i = 0; i < writer->superblock_count; i++) {
        free(writer->superblocks[i].slots);
        free(writer->superblocks[i].states);
    }
    for (size_t i = 0; i < writer->function_capacity; i++) {
        free(writer->functions[i].name);
        free(writer->functions[i].object);
    }
    for (size_t i = 0; i < writer->mapping_count; i++)
        free(writer->mappings[i].name);
    for (int i = 0; i < STREAMS; i++)
        free(writer->stream[i].data);
    free(writer->superblocks);
    free(writer->paths);
    free(writer->functions);
    free(writer->mappings);
    free(writer->compressed.data);
    free(writer->index.data);
    ZSTD_freeCCtx(writer->zstd);
    free(writer);
}

static bool has_begun(const struct trace_writer *writer)
{
    return writer->path_count > 0 && writer->offset > 0;
}

int trace_writer_close(struct trace_writer *writer)
{
    int status = has_begun(writer) ? write_end(writer) : -1;
    free_writer(writer);
    return status;
}

int trace_writer_abandon(struct trace_writer *writer)
{
    int status = has_begun(writer) ? writer_end_chunk(writer) : -1;
    free_writer(writer);
    return status;
}
