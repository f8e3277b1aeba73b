/* SPDX-License-Identifier: MIT
 *
 * encode.c: executions of superblocks, and events, to a chunk's streams.
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
#include "trace/format/writer_state.h"

#include <errno.h>
#include <string.h>

#include "trace/base/array.h"

/* Definitions in a chunk. */

static int introduce_function(struct trace_writer *writer, uint32_t id)
{
    if (id >= writer->function_capacity || !writer->functions[id].name ||
        writer->functions[id].known_in == writer->chunk)
        return 0;
    struct writer_function *function = &writer->functions[id];
    function->known_in = writer->chunk;
    struct bytes *out = &writer->stream[STREAM_FUNCTIONS];
    if (!bytes_reserve(out, VARINT_BYTES))
        return -1;
    put_varint(out, id);
    return put_string(out, function->name) && put_string(out, function->object) ? 0 : -1;
}

static int introduce_superblock(struct trace_writer *writer, struct writer_superblock *superblock)
{
    superblock->known_in = writer->chunk;
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
    path->known_in = writer->chunk;
    path->number = writer->number_of_paths++;
    path->successor[0] = path->successor[1] = 0;
    struct writer_superblock *superblock = &writer->superblocks[path->superblock];
    bool new_superblock = superblock->known_in != writer->chunk;
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
    bool is_new = path->known_in != writer->chunk;
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
    return writer_end_chunk(writer);
}

/* Events. */

/* Cuts [start, end) out of a mapping; what is left of it may be two pieces. */
static int cut_mapping(struct trace_writer *writer, size_t index, uint64_t start, uint64_t end)
{
    struct mapping old = writer->mappings[index];
    uint64_t old_end = old.start + old.bytes;
    writer->mappings[index] = writer->mappings[--writer->mapping_count];
    const uint64_t pieces[2][2] = {{old.start, start}, {end, old_end}};
    for (int i = 0; i < 2; i++) {
        if (pieces[i][0] >= pieces[i][1])
            continue;
        if (!array_reserve(&writer->mappings, &writer->mapping_capacity, writer->mapping_count,
                           sizeof *writer->mappings))
            return -1;
        struct mapping piece = {pieces[i][0], pieces[i][1] - pieces[i][0], old.kind,
                                strdup(old.name)};
        if (!piece.name)
            return -1;
        writer->mappings[writer->mapping_count++] = piece;
    }
    free(old.name);
    return 0;
}

/* Keeps the list of mappings, which each chunk restates. */
static int note_mapping(struct trace_writer *writer, const struct trace_event *event)
{
    uint64_t start = event->value[0], end = start + event->value[1];
    for (size_t i = writer->mapping_count; i-- > 0;) {
        const struct mapping *mapping = &writer->mappings[i];
        if (mapping->start < end && start < mapping->start + mapping->bytes &&
            cut_mapping(writer, i, start, end) < 0)
            return -1;
    }
    if (event->type == TRACE_EVENT_UNMAP)
        return 0;
    struct mapping mapping = {start, event->value[1], event->value[2],
                              strdup(event->name ? event->name : "")};
    if (!mapping.name || !array_reserve(&writer->mappings, &writer->mapping_capacity,
                                        writer->mapping_count, sizeof *writer->mappings))
        return -1;
    writer->mappings[writer->mapping_count++] = mapping;
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
             note_mapping(writer, event) < 0)
        return -1;
    return out->used < CHUNK_EVENT_BYTES ? 0 : writer_end_chunk(writer);
}
