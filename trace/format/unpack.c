/* SPDX-License-Identifier: MIT
 *
 * unpack.c: a chunk from the file to its streams, and its definitions to tables.
 *
 * What comes from the file is checked before it is used: the checksums of head and payload
 * first, then every count, number and length against what the chunk holds.
 */
#include "trace/format/reader_state.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "trace/base/array.h"

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
        if (id >= MOST_FUNCTIONS)
            return reader_fail(reader, reader->chunk_offset, "damaged names of functions");
        struct function function = {get_string(in), NULL};
        function.object = get_string(in);
        if (!functions_add(&reader->functions, (uint32_t)id, function))
            return reader_fail(reader, reader->chunk_offset, "damaged names of functions");
    }
    return 0;
}

/* A superblock's slot: its description is kept; what it tells gets a state. */
static bool read_slot(struct trace_reader *reader, const struct superblock *superblock,
                      struct trace_slot *last)
{
    struct cursor *in = &reader->stream[STREAM_DEFINITIONS];
    const struct trace_slot *slots = reader->slots + superblock->first_slot;
    uint64_t word = get_varint(in);
    struct trace_slot slot = {.size = (uint16_t)(word >> 2), .kind = word & 3};
    slot.instruction = last->instruction + unzigzag(get_varint(in));
    uint64_t base = get_varint(in), known = reader->slot_count - superblock->first_slot;
    slot.base = (uint16_t)base;
    slot.offset = last->offset;
    if (base != TRACE_TOLD)
        slot.offset += unzigzag(get_varint(in));
    *last = slot;
    if (base == TRACE_TOLD) {
        slot.offset = 0;
        reader->states[reader->state_count++] = (struct slot_state){0, 0, 0};
    }
    reader->slots[reader->slot_count++] = slot;
    return !in->failed && slot.kind <= TRACE_POINTER && word >> 2 <= UINT16_MAX &&
           (base < TRACE_BASE_SLOT ||
            (base - TRACE_BASE_SLOT < known && slots[base - TRACE_BASE_SLOT].base == TRACE_TOLD));
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
    superblock->first_state = reader->state_count;
    if (!array_reserve(&reader->slots, &reader->slot_capacity, reader->slot_count + count,
                       sizeof *reader->slots) ||
        !array_reserve(&reader->states, &reader->state_capacity, reader->state_count + count,
                       sizeof *reader->states))
        return reader_short_of_memory(reader);
    struct trace_slot last = {.instruction = superblock->address};
    for (uint64_t i = 0; i < count; i++)
        if (!read_slot(reader, superblock, &last))
            return reader_fail(reader, reader->chunk_offset, "damaged superblock");
    return 0;
}

static int read_path(struct trace_reader *reader, uint64_t *last_address)
{
    struct cursor *in = &reader->stream[STREAM_DEFINITIONS];
    uint64_t number = get_varint(in), first = get_varint(in), count = get_varint(in),
             instructions = get_varint(in), stack_base = get_varint(in);
    uint64_t stack_offset = stack_base == TRACE_TOLD ? 0 : unzigzag(get_varint(in));
    if (in->failed || number > reader->superblock_count ||
        (number == reader->superblock_count && read_superblock(reader, last_address) < 0))
        return reader->at_end ? -1 : reader_fail(reader, reader->chunk_offset, "damaged path");
    const struct superblock *superblock = &reader->superblocks[number];
    const struct trace_slot *slots = reader->slots + superblock->first_slot;
    if (first > superblock->slot_count || count > superblock->slot_count - first ||
        instructions > UINT32_MAX ||
        (stack_base >= TRACE_BASE_SLOT && (stack_base - TRACE_BASE_SLOT >= superblock->slot_count ||
                                           slots[stack_base - TRACE_BASE_SLOT].base != TRACE_TOLD)))
        return reader_fail(reader, reader->chunk_offset, "a path goes beyond its superblock");
    if (!array_reserve(&reader->paths, &reader->path_capacity, reader->path_count,
                       sizeof(struct path)))
        return reader_short_of_memory(reader);
    reader->paths[reader->path_count++] = (struct path){
        .instructions = (uint32_t)instructions,
        .path = {.superblock = (uint32_t)number,
                 .first = (uint32_t)first,
                 .end = (uint32_t)(first + count),
                 .instructions = (uint32_t)instructions,
                 .stack_base = (uint16_t)stack_base,
                 .stack_offset = stack_offset},
        .copied = -1,
    };
    return 0;
}

/* Tables. The arrays have stopped moving when these are made. */

/* Where what a slot or the stack pointer is based on stands. */
static const uint64_t *find_base(const struct trace_reader *reader,
                                 const struct superblock *superblock, uint32_t base)
{
    const struct trace_slot *slots = reader->slots + superblock->first_slot;
    if (base == TRACE_BASE_NOTHING)
        return &reader->nothing;
    if (base < TRACE_BASE_SLOT)
        return &reader->stack;
    return &reader->states[superblock->first_state + count_told(slots, base - TRACE_BASE_SLOT)]
                .last;
}

static void make_makers(struct trace_reader *reader, struct superblock *superblock)
{
    const struct trace_slot *slots = reader->slots + superblock->first_slot;
    const struct slot_state *told = reader->states + superblock->first_state;
    superblock->first_maker = reader->maker_count;
    for (uint32_t i = 0; i < superblock->slot_count; i++) {
        const uint64_t *base = slots[i].base == TRACE_TOLD
                                   ? &told++->last
                                   : find_base(reader, superblock, slots[i].base);
        if (slots[i].kind == TRACE_POINTER)
            continue;
        uint32_t function =
            instructions_number(&reader->instructions, slots[i].instruction, superblock->function);
        reader->makers[reader->maker_count++] = (struct maker){
            base, slots[i].offset,
            function | (uint64_t)slots[i].size << 32 | (uint64_t)slots[i].kind << 48};
    }
}

static void finish_path(struct trace_reader *reader, struct path *path)
{
    const struct superblock *superblock = &reader->superblocks[path->path.superblock];
    const struct trace_slot *slots = reader->slots + superblock->first_slot;
    uint32_t before = count_told(slots, path->path.first), skipped = 0;
    path->told = count_told(slots, path->path.end) - before;
    path->states = reader->states + superblock->first_state + before;
    for (uint32_t i = 0; i < path->path.end; i++) {
        bool reference = slots[i].kind != TRACE_POINTER, inside = i >= path->path.first;
        skipped += reference && !inside;
        path->references += reference && inside;
        path->stores += inside && slots[i].kind == TRACE_STORE;
    }
    path->makers = reader->makers + superblock->first_maker + skipped;
    path->stack_base =
        find_base(reader, superblock,
                  path->path.stack_base == TRACE_TOLD ? TRACE_BASE_STACK : path->path.stack_base);
    path->stack_offset = path->path.stack_offset;
}

static int read_definitions(struct trace_reader *reader)
{
    uint64_t last_address = 0;
    reader->superblock_count = reader->slot_count = reader->state_count = reader->maker_count = 0;
    if (!array_reserve(&reader->paths, &reader->path_capacity, NO_PATH, sizeof(struct path)))
        return reader_short_of_memory(reader);
    reader->paths[NO_PATH] = (struct path){.stack_base = &reader->stack, .copied = -1};
    reader->path_count = 1;
    const struct cursor *in = &reader->stream[STREAM_DEFINITIONS];
    while (in->next < in->end)
        if (read_path(reader, &last_address) < 0)
            return -1;
    if (!array_reserve(&reader->makers, &reader->maker_capacity, reader->slot_count,
                       sizeof *reader->makers))
        return reader_short_of_memory(reader);
    for (size_t i = 0; i < reader->superblock_count; i++)
        make_makers(reader, &reader->superblocks[i]);
    for (size_t i = 1; i < reader->path_count; i++)
        finish_path(reader, &reader->paths[i]);
    return reader->instructions.short_of_memory ? reader_short_of_memory(reader) : 0;
}

int reader_unpack_chunk(struct trace_reader *reader)
{
    if (unpack_streams(reader) < 0 || read_functions(reader) < 0)
        return -1;
    return read_definitions(reader);
}
