/* SPDX-License-Identifier: MIT
 *
 * unpack.c: a chunk from the file to its streams, and its definitions to tables.
 *
 * What comes from the file is checked before it is used: hashes first, then every count, number
 * and length against what the chunk holds.
 */
#include "trace/format/reader_state.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "trace/base/array.h"

/* Larger sizes in a header are damage, not data. */
enum { MOST_PAYLOAD_BYTES = 1 << 30 };

int reader_read_all(struct trace_reader *reader, void *data, size_t bytes)
{
    size_t have = 0;
    while (have < bytes) {
        ssize_t got = read(reader->fd, (char *)data + have, bytes - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return reader_fail(reader, reader->offset + have, "cannot be read: %s",
                               strerror(errno));
        if (got == 0)
            break;
        have += (size_t)got;
    }
    reader->offset += have;
    if (have == bytes)
        return 1;
    if (have == 0)
        return 0;
    return reader_fail(reader, reader->offset, "the trace ends in the middle of a chunk");
}

int reader_read_chunk(struct trace_reader *reader)
{
    struct chunk_header *header = &reader->header;
    uint64_t start = reader->chunk_offset = reader->offset;
    int status = reader_read_all(reader, header, sizeof *header);
    if (status <= 0)
        return status;
    if (header->magic != TRACE_CHUNK_MAGIC ||
        header->header_hash != XXH3_64bits(header, offsetof(struct chunk_header, header_hash)))
        return reader_fail(reader, start, "damaged chunk header");
    if (header->payload_bytes > MOST_PAYLOAD_BYTES)
        return reader_fail(reader, start, "chunk of %" PRIu64 " bytes", header->payload_bytes);
    reader->payload.used = 0;
    if (!bytes_reserve(&reader->payload, header->payload_bytes + 1))
        return reader_short_of_memory(reader);
    status = reader_read_all(reader, reader->payload.data, header->payload_bytes);
    if (status < 0)
        return -1;
    if (status == 0 && header->payload_bytes > 0)
        return reader_fail(reader, reader->offset, "the trace ends in the middle of a chunk");
    reader->payload.used = header->payload_bytes;
    if (XXH3_64bits(reader->payload.data, reader->payload.used) != header->payload_hash)
        return reader_fail(reader, start, "damaged chunk: its checksum does not match");
    return 1;
}

static int unpack_streams(struct trace_reader *reader)
{
    struct stream_size sizes[STREAMS];
    if (reader->payload.used < sizeof sizes)
        return reader_fail(reader, reader->chunk_offset, "chunk without streams");
    memcpy(sizes, reader->payload.data, sizeof sizes);
    uint64_t raw = 0, stored = sizeof sizes;
    for (int i = 0; i < STREAMS; i++) {
        raw += sizes[i].raw_bytes;
        stored += sizes[i].stored_bytes;
    }
    if (stored != reader->payload.used || raw > MOST_PAYLOAD_BYTES)
        return reader_fail(reader, reader->chunk_offset, "a chunk's streams do not fit it");
    reader->raw.used = 0;
    if (!bytes_reserve(&reader->raw,
                       raw + sizeof(uint64_t))) /* see take_difference() in decode.c */
        return reader_short_of_memory(reader);
    const uint8_t *in = reader->payload.data + sizeof sizes;
    uint8_t *out = reader->raw.data;
    for (int i = 0; i < STREAMS; i++) {
        if (sizes[i].raw_bytes == sizes[i].stored_bytes)
            memcpy(out, in, sizes[i].raw_bytes);
        else if (ZSTD_decompressDCtx(reader->zstd, out, sizes[i].raw_bytes, in,
                                     sizes[i].stored_bytes) != sizes[i].raw_bytes)
            return reader_fail(reader, reader->chunk_offset, "stream %d cannot be decompressed", i);
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
            return reader_fail(reader, reader->chunk_offset, "damaged names of functions");
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
        return reader_short_of_memory(reader);
    struct superblock *superblock = &reader->superblocks[reader->superblock_count++];
    *last_address += unzigzag(get_varint(in));
    superblock->address = *last_address;
    superblock->function = (uint32_t)get_varint(in);
    uint64_t count = get_varint(in);
    if (in->failed || count > MOST_SLOTS)
        return reader_fail(reader, reader->chunk_offset, "damaged superblock");
    superblock->slot_count = (uint32_t)count;
    superblock->first_slot = reader->slot_count;
    if (!array_reserve(&reader->slots, &reader->slot_capacity, reader->slot_count + count,
                       sizeof *reader->slots))
        return reader_short_of_memory(reader);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word = get_varint(in);
        reader->slots[reader->slot_count++] = (struct slot){
            {0, 0, 0}, superblock->function | (word >> 1 & 0xffff) << 32 | (word & 1) << 48};
    }
    return in->failed ? reader_fail(reader, reader->chunk_offset, "damaged superblock") : 0;
}

static int read_path(struct trace_reader *reader, uint64_t *last_address)
{
    struct cursor *in = &reader->stream[STREAM_DEFINITIONS];
    uint64_t number = get_varint(in), first = get_varint(in), count = get_varint(in),
             instructions = get_varint(in);
    if (in->failed || number > reader->superblock_count ||
        (number == reader->superblock_count && read_superblock(reader, last_address) < 0))
        return reader->at_end ? -1 : reader_fail(reader, reader->chunk_offset, "damaged path");
    const struct superblock *superblock = &reader->superblocks[number];
    if (first > superblock->slot_count || count > superblock->slot_count - first ||
        instructions > UINT32_MAX)
        return reader_fail(reader, reader->chunk_offset, "a path goes beyond its superblock");
    if (!array_reserve(&reader->paths, &reader->path_capacity, reader->path_count,
                       sizeof(struct path)))
        return reader_short_of_memory(reader);
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
        return reader_short_of_memory(reader);
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

int reader_unpack_chunk(struct trace_reader *reader)
{
    if (unpack_streams(reader) < 0 || read_functions(reader) < 0)
        return -1;
    return read_definitions(reader);
}
