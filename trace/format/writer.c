/* SPDX-License-Identifier: MIT
 *
 * writer.c: encodes executions of superblocks into chunks.
 *
 * Programs repeat themselves: after the same path comes mostly the same path, and a slot's
 * address is mostly its last address, or moves by a steady stride, or moves as another slot
 * has just moved. An execution of which all of that is true costs one zero byte; anything
 * else says what differs, each kind of difference in a stream of its own, and zstd shortens
 * the streams. All prediction starts anew with each chunk, so that chunks decode alone.
 *
 * Value prediction for trace compression: Burtscher, "VPC3: A Fast and Effective
 * Trace-Compression Algorithm", SIGMETRICS 2004.
 */
#include <errno.h>
#include <xxhash.h>
#include <zstd.h>

#include "trace/base/write_all.h"
#include "trace/format/chunk.h"

struct writer_superblock {
    uint64_t address;
    uint32_t function;
    uint32_t slot_count;
    uint32_t generation; /* chunk in which `number` is valid */
    uint32_t number;
    struct trace_slot *slots;
    struct slot_state *states;
};

struct writer_path {
    uint32_t superblock;
    uint32_t first, end;
    uint32_t instructions;
    uint32_t stores;
    uint32_t generation;
    uint32_t number;
    uint32_t successor[2]; /* the last one and another, as indices of paths */
};

struct writer_function {
    char *name;
    char *object;
    uint32_t generation;
};

struct live_region {
    uint64_t start, bytes, kind;
    char *name;
};

struct trace_writer {
    int fd;
    int level;
    uint64_t offset;
    uint64_t sequence;
    bool has_whole;
    struct trace_totals totals;
    struct trace_totals whole;

    struct writer_superblock *superblocks;
    size_t superblock_count, superblock_capacity;
    struct writer_path *paths; /* 0 is the path before the first one of a chunk */
    size_t path_count, path_capacity;
    struct writer_function *functions; /* by id */
    size_t function_capacity;
    struct live_region *regions;
    size_t region_count, region_capacity;

    /* The chunk at hand. */
    struct chunk_header header;
    uint32_t generation;
    uint32_t number_of_paths, number_of_superblocks;
    uint32_t last_path;
    uint64_t last_address;
    uint64_t executions, event_executions;
    uint32_t thread, class;
    struct recent_differences recent;
    struct bytes stream[STREAMS];

    struct bytes compressed;
    struct bytes index;
    ZSTD_CCtx *zstd;
};

/* Output. */

static int put(struct trace_writer *writer, const void *data, size_t bytes)
{
    if (write_all(writer->fd, data, bytes) < 0)
        return -1;
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
    const size_t slots = CHUNK_REFERENCES + MOST_SLOTS;
    bool room = bytes_reserve(&writer->stream[STREAM_TOKENS], CHUNK_EXECUTIONS) &&
                bytes_reserve(&writer->stream[STREAM_IDS16], 2 * (size_t)CHUNK_EXECUTIONS) &&
                bytes_reserve(&writer->stream[STREAM_IDS32], 4 * (size_t)CHUNK_EXECUTIONS) &&
                bytes_reserve(&writer->stream[STREAM_CODES], slots);
    for (unsigned width = 0; width < 4; width++)
        room = room && bytes_reserve(&writer->stream[STREAM_DELTAS8 + width], slots << width);
    return room;
}

/* What a chunk begins with: clean predictions, the clocks, and the mappings. */
static int begin_chunk(struct trace_writer *writer)
{
    writer->generation++;
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
    for (size_t i = 0; i < writer->region_count; i++) {
        const struct live_region *region = &writer->regions[i];
        struct trace_event event = {.type = TRACE_EVENT_MAP,
                                    .value = {region->start, region->bytes, region->kind},
                                    .name = region->name};
        if (!put_event(&writer->stream[STREAM_REGIONS], &event))
            return -1;
    }
    return 0;
}

static int end_chunk(struct trace_writer *writer)
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
    function->generation = 0;
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
    *superblock = (struct writer_superblock){address,
                                             function,
                                             slot_count,
                                             0,
                                             0,
                                             calloc(slot_count + 1, sizeof *slots),
                                             calloc(slot_count + 1, sizeof *superblock->states)};
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
    writer->paths[writer->path_count] = (struct writer_path){.superblock = superblock,
                                                             .first = first,
                                                             .end = end,
                                                             .instructions = instructions,
                                                             .stores = stores};
    return (int64_t)writer->path_count++;
}

/* Definitions in a chunk. */

static int introduce_function(struct trace_writer *writer, uint32_t id)
{
    if (id >= writer->function_capacity || !writer->functions[id].name ||
        writer->functions[id].generation == writer->generation)
        return 0;
    struct writer_function *function = &writer->functions[id];
    function->generation = writer->generation;
    struct bytes *out = &writer->stream[STREAM_FUNCTIONS];
    if (!bytes_reserve(out, VARINT_BYTES))
        return -1;
    put_varint(out, id);
    return put_string(out, function->name) && put_string(out, function->object) ? 0 : -1;
}

static int introduce_superblock(struct trace_writer *writer, struct writer_superblock *superblock)
{
    superblock->generation = writer->generation;
    superblock->number = writer->number_of_superblocks++;
    memset(superblock->states, 0, superblock->slot_count * sizeof *superblock->states);
    struct bytes *out = &writer->stream[STREAM_DEFINITIONS];
    if (!bytes_reserve(out, (3 + (size_t)superblock->slot_count) * VARINT_BYTES))
        return -1;
    put_varint(out, zigzag(superblock->address - writer->last_address));
    writer->last_address = superblock->address;
    put_varint(out, superblock->function);
    put_varint(out, superblock->slot_count);
    for (uint32_t i = 0; i < superblock->slot_count; i++)
        put_varint(out, (uint64_t)superblock->slots[i].size << 1 | superblock->slots[i].kind);
    return introduce_function(writer, superblock->function);
}

static __attribute__((noinline)) int introduce_path(struct trace_writer *writer,
                                                    struct writer_path *path)
{
    path->generation = writer->generation;
    path->number = writer->number_of_paths++;
    path->successor[0] = path->successor[1] = 0;
    struct writer_superblock *superblock = &writer->superblocks[path->superblock];
    bool new_superblock = superblock->generation != writer->generation;
    struct bytes *out = &writer->stream[STREAM_DEFINITIONS];
    if (!bytes_reserve(out, 4 * VARINT_BYTES))
        return -1;
    put_varint(out, new_superblock ? writer->number_of_superblocks : superblock->number);
    put_varint(out, path->first);
    put_varint(out, path->end - path->first);
    put_varint(out, path->instructions);
    return new_superblock ? introduce_superblock(writer, superblock) : 0;
}

/* Executions. */

static void put_delta(struct trace_writer *writer, enum chunk_stream stream, uint64_t difference,
                      unsigned bytes)
{
    struct bytes *out = &writer->stream[stream];
    memcpy(out->data + out->used, &difference, bytes);
    out->used += bytes;
}

/* Tells a difference that no prediction covers, in as few bytes as it needs. */
static enum slot_code put_difference(struct trace_writer *writer, uint64_t difference)
{
    if ((int8_t)difference == (int64_t)difference) {
        put_delta(writer, STREAM_DELTAS8, difference, 1);
        return CODE_DELTA8;
    }
    if ((int16_t)difference == (int64_t)difference) {
        put_delta(writer, STREAM_DELTAS16, difference, 2);
        return CODE_DELTA16;
    }
    if ((int32_t)difference == (int64_t)difference) {
        put_delta(writer, STREAM_DELTAS32, difference, 4);
        return CODE_DELTA32;
    }
    put_delta(writer, STREAM_DELTAS64, difference, 8);
    return CODE_DELTA64;
}

static enum slot_code encode_slot(struct trace_writer *writer, struct slot_state *slot,
                                  uint64_t address)
{
    uint64_t difference = address - slot->last;
    if (difference == slot->stride) {
        slot_as_predicted(slot);
        return CODE_STRIDE;
    }
    enum slot_code code;
    if (difference == writer->recent.newest) {
        code = CODE_RECENT;
    } else if (difference == 0) {
        code = CODE_SAME;
    } else if (difference == writer->recent.older) {
        code = CODE_OLDER;
        remember_difference(&writer->recent, difference);
    } else {
        code = put_difference(writer, difference);
        remember_difference(&writer->recent, difference);
    }
    slot_moved(slot, difference);
    return code;
}

static void encode_slots(struct trace_writer *writer, struct slot_state *states,
                         const uint64_t *addresses, uint32_t count, const struct trace_slot *slots)
{
    uint8_t *codes = writer->stream[STREAM_CODES].data + writer->stream[STREAM_CODES].used;
    for (uint32_t i = 0; i < count; i++) {
        if (addresses[i] == TRACE_ABSENT) {
            codes[i] = CODE_ABSENT;
            writer->totals.references--;
            writer->totals.by_class[writer->class]--;
            writer->totals.stores -= slots[i].kind == TRACE_STORE;
        } else {
            codes[i] = encode_slot(writer, &states[i], addresses[i]);
        }
    }
    writer->stream[STREAM_CODES].used += count;
}

/* Whether all addresses are as their slots' strides predict; if so the slots move on. */
static bool advance_if_predicted(struct slot_state *states, const uint64_t *addresses,
                                 uint32_t count)
{
    uint64_t wrong = 0;
    bool absent = false; /* a stride may lead to the very address that stands for this */
    for (uint32_t i = 0; i < count; i++) {
        wrong |= (states[i].last + states[i].stride) ^ addresses[i];
        absent |= addresses[i] == TRACE_ABSENT;
    }
    if (wrong || absent)
        return false;
    for (uint32_t i = 0; i < count; i++)
        slot_as_predicted(&states[i]);
    return true;
}

/* Says which path comes after the last one, in the cheapest way. */
static enum token_path encode_path(struct trace_writer *writer, uint32_t index, bool is_new)
{
    struct writer_path *last = &writer->paths[writer->last_path];
    if (last->successor[0] == index)
        return PATH_LAST_SUCCESSOR;
    enum token_path way = PATH_OTHER_SUCCESSOR;
    uint32_t number = writer->paths[index].number;
    if (is_new) {
        way = PATH_NEW;
    } else if (last->successor[1] != index) {
        way = number <= UINT16_MAX ? PATH_ID16 : PATH_ID32;
        put_delta(writer, way == PATH_ID16 ? STREAM_IDS16 : STREAM_IDS32, number,
                  way == PATH_ID16 ? 2 : 4);
    }
    last->successor[1] = last->successor[0];
    last->successor[0] = index;
    return way;
}

int trace_writer_execute(struct trace_writer *writer, uint32_t index, const uint64_t *addresses)
{
    struct writer_path *path = &writer->paths[index];
    uint32_t count = path->end - path->first;
    bool is_new = path->generation != writer->generation;
    if (is_new && introduce_path(writer, path) < 0)
        return -1;
    writer->executions++;
    writer->totals.superblocks++;
    writer->totals.instructions += path->instructions;
    writer->totals.references += count;
    writer->totals.stores += path->stores;
    writer->totals.by_class[writer->class] += count;

    struct writer_superblock *superblock = &writer->superblocks[path->superblock];
    struct slot_state *states = superblock->states + path->first;
    enum token_path way = encode_path(writer, index, is_new);
    bool predicted = advance_if_predicted(states, addresses, count);
    if (!predicted)
        encode_slots(writer, states, addresses, count, superblock->slots + path->first);
    struct bytes *tokens = &writer->stream[STREAM_TOKENS];
    tokens->data[tokens->used++] =
        predicted && way == PATH_LAST_SUCCESSOR ? 0 : (uint8_t)(1 + 2 * way + !predicted);
    writer->last_path = index;
    if (writer->totals.references - writer->header.start.references < CHUNK_REFERENCES &&
        writer->stream[STREAM_CODES].used < CHUNK_REFERENCES && /* absent ones are no references */
        writer->executions < CHUNK_EXECUTIONS)
        return 0;
    return end_chunk(writer);
}

/* Events. */

/* Cuts [start, end) out of a region; what is left of it may be two pieces. */
static int cut_region(struct trace_writer *writer, size_t index, uint64_t start, uint64_t end)
{
    struct live_region old = writer->regions[index];
    uint64_t old_end = old.start + old.bytes;
    writer->regions[index] = writer->regions[--writer->region_count];
    const uint64_t pieces[2][2] = {{old.start, start}, {end, old_end}};
    for (int i = 0; i < 2; i++) {
        if (pieces[i][0] >= pieces[i][1])
            continue;
        if (!array_reserve(&writer->regions, &writer->region_capacity, writer->region_count,
                           sizeof *writer->regions))
            return -1;
        struct live_region piece = {pieces[i][0], pieces[i][1] - pieces[i][0], old.kind,
                                    strdup(old.name)};
        if (!piece.name)
            return -1;
        writer->regions[writer->region_count++] = piece;
    }
    free(old.name);
    return 0;
}

/* Keeps the list of mappings, which each chunk restates. */
static int note_region(struct trace_writer *writer, const struct trace_event *event)
{
    uint64_t start = event->value[0], end = start + event->value[1];
    for (size_t i = writer->region_count; i-- > 0;) {
        const struct live_region *region = &writer->regions[i];
        if (region->start < end && start < region->start + region->bytes &&
            cut_region(writer, i, start, end) < 0)
            return -1;
    }
    if (event->type == TRACE_EVENT_UNMAP)
        return 0;
    struct live_region region = {start, event->value[1], event->value[2],
                                 strdup(event->name ? event->name : "")};
    if (!region.name || !array_reserve(&writer->regions, &writer->region_capacity,
                                       writer->region_count, sizeof *writer->regions))
        return -1;
    writer->regions[writer->region_count++] = region;
    return 0;
}

int trace_writer_event(struct trace_writer *writer, const struct trace_event *event)
{
    struct bytes *out = &writer->stream[STREAM_EVENTS];
    if (event->type == 0 || event->type >= TRACE_EVENT_TYPES ||
        (event->type == TRACE_EVENT_CLASS && event->value[0] >= TRACE_CLASSES)) {
        errno = EINVAL;
        return -1;
    }
    if (!bytes_reserve(out, VARINT_BYTES))
        return -1;
    put_varint(out, writer->executions - writer->event_executions);
    writer->event_executions = writer->executions;
    if (!put_event(out, event))
        return -1;
    writer->totals.events++;
    writer->totals.allocated_bytes += event_bytes(event);
    if (event->type == TRACE_EVENT_CLASS)
        writer->class = (uint32_t)event->value[0];
    else if (event->type == TRACE_EVENT_THREAD)
        writer->thread = (uint32_t)event->value[0];
    else if ((event->type == TRACE_EVENT_MAP || event->type == TRACE_EVENT_UNMAP) &&
             note_region(writer, event) < 0)
        return -1;
    return out->used < CHUNK_EVENT_BYTES ? 0 : end_chunk(writer);
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
    if (end_chunk(writer) < 0 ||
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

int trace_writer_close(struct trace_writer *writer)
{
    int status = writer->path_count > 0 && writer->offset > 0 ? write_end(writer) : -1;
    for (size_t i = 0; i < writer->superblock_count; i++) {
        free(writer->superblocks[i].slots);
        free(writer->superblocks[i].states);
    }
    for (size_t i = 0; i < writer->function_capacity; i++) {
        free(writer->functions[i].name);
        free(writer->functions[i].object);
    }
    for (size_t i = 0; i < writer->region_count; i++)
        free(writer->regions[i].name);
    for (int i = 0; i < STREAMS; i++)
        free(writer->stream[i].data);
    free(writer->superblocks);
    free(writer->paths);
    free(writer->functions);
    free(writer->regions);
    free(writer->compressed.data);
    free(writer->index.data);
    ZSTD_freeCCtx(writer->zstd);
    free(writer);
    return status;
}
