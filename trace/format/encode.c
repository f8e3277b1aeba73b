/* SPDX-License-Identifier: MIT
 *
 * encode.c: executions of superblocks, to a chunk's streams.
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
#include <string.h>

#include "trace/format/writer_state.h"

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
    memset(superblock->states, 0, superblock->told_count * sizeof *superblock->states);
    struct bytes *out = &writer->stream[STREAM_DEFINITIONS];
    if (!bytes_reserve(out, (3 + 4 * (size_t)superblock->slot_count) * VARINT_BYTES))
        return -1;
    put_varint(out, zigzag(superblock->address - writer->last_address));
    writer->last_address = superblock->address;
    put_varint(out, superblock->function);
    put_varint(out, superblock->slot_count);
    uint64_t instruction = superblock->address, last_offset = 0;
    for (uint32_t i = 0; i < superblock->slot_count; i++) {
        const struct trace_slot *slot = &superblock->slots[i];
        put_varint(out, (uint64_t)slot->size << 2 | slot->kind);
        put_varint(out, zigzag(slot->instruction - instruction));
        instruction = slot->instruction;
        put_varint(out, slot->base);
        if (slot->base == TRACE_TOLD)
            continue;
        put_varint(out, zigzag(slot->offset - last_offset));
        last_offset = slot->offset;
    }
    return introduce_function(writer, superblock->function);
}

static __attribute__((noinline)) int introduce_path(struct trace_writer *writer,
                                                    struct writer_path *path)
{
    path->known_in = writer->chunk;
    path->number = writer->number_of_paths++;
    path->successor[0] = path->successor[1] = 0;
    struct writer_superblock *superblock = &writer->superblocks[path->path.superblock];
    bool new_superblock = superblock->known_in != writer->chunk;
    struct bytes *out = &writer->stream[STREAM_DEFINITIONS];
    if (!bytes_reserve(out, 6 * VARINT_BYTES))
        return -1;
    put_varint(out, new_superblock ? writer->number_of_superblocks : superblock->number);
    put_varint(out, path->path.first);
    put_varint(out, path->path.end - path->path.first);
    put_varint(out, path->instructions);
    put_varint(out, path->path.stack_base);
    if (path->path.stack_base != TRACE_TOLD)
        put_varint(out, zigzag(path->path.stack_offset));
    return new_superblock ? introduce_superblock(writer, superblock) : 0;
}

/* Executions.
 *
 * Superblocks are short, two references in the mean, and how a slot is told varies: so that has no
 * branch. What may be put into a stream is put there, and the stream's end moves or does not. */

/* The streams' ends and the predictions, in registers as far as there are some. */
struct encoder {
    struct trace_writer *writer;
    uint8_t *codes; /* of the execution at hand */
    uint8_t *deltas[4];
    uint8_t *ids16;
    struct recent_differences recent;
    uint32_t absent, absent_stores;
};

/* Tells a difference that the stride did not predict, in as few bytes as it needs. */
static inline uint8_t encode_difference(struct encoder *encoder, uint64_t difference)
{
    struct recent_differences recent = encoder->recent;
    uint64_t size = difference ^ (uint64_t)((int64_t)difference >> 63);
    unsigned width = (size > INT8_MAX) + (size > INT16_MAX) + (size > INT32_MAX);
    unsigned code = CODE_DELTA8 + width;
    code = difference == recent.older ? CODE_OLDER : code;
    code = difference == 0 ? CODE_SAME : code;
    code = difference == recent.newest ? CODE_RECENT : code;
    memcpy(encoder->deltas[width], &difference, sizeof difference);
    encoder->deltas[width] += (size_t)(code >= CODE_DELTA8) << width;
    bool told = code >= CODE_OLDER;
    encoder->recent.older = told ? recent.newest : recent.older;
    encoder->recent.newest = told ? difference : recent.newest;
    return (uint8_t)code;
}

/* The access of the path's told slot `word` did not take place. */
static __attribute__((noinline)) uint8_t encode_absent(struct encoder *encoder,
                                                       const struct writer_path *path,
                                                       uint32_t word)
{
    const struct trace_slot *slot =
        encoder->writer->superblocks[path->path.superblock].slots + path->path.first;
    while (slot->base != TRACE_TOLD || word-- > 0)
        slot++;
    encoder->absent += slot->kind != TRACE_POINTER;
    encoder->absent_stores += slot->kind == TRACE_STORE;
    return CODE_ABSENT;
}

/* Says which path comes after the last one, in the cheapest way. */
static inline enum token_path encode_path(struct encoder *encoder, struct writer_path *last,
                                          uint32_t index, const struct writer_path *path,
                                          bool is_new)
{
    if (__builtin_expect(last->successor[0] == index, 1))
        return PATH_LAST_SUCCESSOR;
    bool second = last->successor[1] == index;
    enum token_path way = is_new ? PATH_NEW : second ? PATH_OTHER_SUCCESSOR : PATH_ID16;
    uint16_t number = (uint16_t)path->number;
    memcpy(encoder->ids16, &number, sizeof number);
    if (__builtin_expect(path->number > UINT16_MAX && way == PATH_ID16, 0)) {
        struct bytes *ids32 = &encoder->writer->stream[STREAM_IDS32];
        memcpy(ids32->data + ids32->used, &path->number, sizeof path->number);
        ids32->used += sizeof path->number;
        way = PATH_ID32;
    }
    encoder->ids16 += 2 * (way == PATH_ID16);
    last->successor[1] = last->successor[0];
    last->successor[0] = index;
    return way;
}

static inline uint8_t *stream_end(struct bytes *stream)
{
    return stream->data + stream->used;
}

static inline struct encoder encoder_begin(struct trace_writer *writer)
{
    struct encoder encoder = {.writer = writer,
                              .codes = stream_end(&writer->stream[STREAM_CODES]),
                              .ids16 = stream_end(&writer->stream[STREAM_IDS16]),
                              .recent = writer->recent};
    for (int width = 0; width < 4; width++)
        encoder.deltas[width] = stream_end(&writer->stream[STREAM_DELTAS8 + width]);
    return encoder;
}

static inline void encoder_end(const struct encoder *encoder)
{
    struct trace_writer *writer = encoder->writer;
    struct bytes *stream = writer->stream;
    stream[STREAM_CODES].used = (size_t)(encoder->codes - stream[STREAM_CODES].data);
    stream[STREAM_IDS16].used = (size_t)(encoder->ids16 - stream[STREAM_IDS16].data);
    for (int width = 0; width < 4; width++)
        stream[STREAM_DELTAS8 + width].used =
            (size_t)(encoder->deltas[width] - stream[STREAM_DELTAS8 + width].data);
    writer->recent = encoder->recent;
    writer->totals.references -= encoder->absent;
    writer->totals.by_class[writer->class] -= encoder->absent;
    writer->totals.stores -= encoder->absent_stores;
}

/* Puts the codes of an execution behind the stream's end; says whether a slot is not as predicted.
 */
static inline bool encode_slots(struct encoder *encoder, const struct writer_path *path,
                                const uint64_t *addresses)
{
    unsigned told = 0;
    for (uint32_t i = 0; i < path->told; i++) {
        struct slot_state *slot = &path->states[i];
        uint64_t difference = addresses[i] - slot->last;
        unsigned code;
        if (__builtin_expect(addresses[i] == TRACE_ABSENT, 0)) {
            code = encode_absent(encoder, path, i);
        } else if (difference == slot->stride) {
            slot_as_predicted(slot);
            code = CODE_STRIDE;
        } else {
            code = encode_difference(encoder, difference);
            slot_moved(slot, difference);
        }
        encoder->codes[i] = (uint8_t)code;
        told |= code;
    }
    return told != 0;
}

/* Says where the stack is, if a reader takes it to be elsewhere. */
static int tell_stack(struct trace_writer *writer)
{
    struct bytes *out = &writer->stream[STREAM_EVENTS];
    if (writer->stack_untold == 0)
        return 0;
    if (!bytes_reserve(out, VARINT_BYTES))
        return -1;
    put_varint(out, writer->executions - writer->event_executions);
    writer->event_executions = writer->executions;
    struct trace_event event = {.type = EVENT_STACK, .value = {zigzag(writer->stack_untold)}};
    writer->stack_untold = 0;
    return put_event(out, &event) ? 0 : -1;
}

/* Where a path that was taken leaves the stack pointer. */
static inline uint64_t stack_behind(const struct writer_path *path, const uint64_t *addresses,
                                    uint64_t stack)
{
    uint64_t from = stack;
    if (__builtin_expect(path->stack_word != STACK_MOVES, 0))
        from = path->stack_word == STACK_IS ? 0 : addresses[path->stack_word];
    return from + path->stack_offset;
}

/* Encodes executions, of which all but the last come before the chunk's end. */
static int encode_executions(struct trace_writer *writer, const struct trace_execution *executions,
                             size_t count)
{
    struct encoder encoder = encoder_begin(writer);
    struct writer_path *last = &writer->paths[writer->last_path];
    uint8_t *tokens = stream_end(&writer->stream[STREAM_TOKENS]);
    const uint32_t chunk = writer->chunk;
    uint64_t counted = 0, instructions = 0, stack = writer->stack;
    for (size_t i = 0; i < count; i++) {
        struct writer_path *path = &writer->paths[executions[i].path];
        bool is_new = path->known_in != chunk;
        if (__builtin_expect(is_new, 0) && introduce_path(writer, path) < 0)
            return -1;
        counted += path->counted;
        instructions += path->instructions;
        unsigned way = encode_path(&encoder, last, executions[i].path, path, is_new);
        bool told = encode_slots(&encoder, path, executions[i].addresses);
        encoder.codes += told ? path->told : 0;
        stack = stack_behind(path, executions[i].addresses, stack);
        unsigned token = 2 * way + told;
        tokens[i] = (uint8_t)(token + (token != 0));
        last = path;
    }
    writer->stream[STREAM_TOKENS].used += count;
    writer->executions += count;
    writer->stack = stack;
    writer->last_path = count > 0 ? executions[count - 1].path : writer->last_path;
    uint64_t references = counted & UINT32_MAX, stores = counted >> 32;
    writer->totals.superblocks += count;
    writer->totals.references += references;
    writer->totals.by_class[writer->class] += references;
    writer->totals.stores += stores;
    writer->totals.instructions += instructions;
    encoder_end(&encoder);
    return 0;
}

/* How many executions cannot end the chunk, whatever they are. */
static size_t sure_to_fit(const struct trace_writer *writer)
{
    uint64_t references = writer->totals.references - writer->header.start.references;
    uint64_t codes = writer->stream[STREAM_CODES].used; /* absent ones are no references */
    uint64_t used = references > codes ? references : codes;
    uint64_t fit = (CHUNK_REFERENCES - 1 - used) / (writer->most_slots + 1);
    uint64_t left = CHUNK_EXECUTIONS - 1 - writer->executions;
    return fit < left ? fit : left;
}

static bool chunk_is_full(const struct trace_writer *writer)
{
    return writer->totals.references - writer->header.start.references >= CHUNK_REFERENCES ||
           writer->stream[STREAM_CODES].used >= CHUNK_REFERENCES ||
           writer->executions >= CHUNK_EXECUTIONS;
}

int trace_writer_execute_all(struct trace_writer *writer, const struct trace_execution *executions,
                             size_t count)
{
    while (count > 0) {
        size_t some = sure_to_fit(writer);
        some = some < 1 ? 1 : some < count ? some : count;
        if (tell_stack(writer) < 0 || encode_executions(writer, executions, some) < 0 ||
            (chunk_is_full(writer) && writer_end_chunk(writer) < 0))
            return -1;
        executions += some;
        count -= some;
    }
    return 0;
}

int trace_writer_execute(struct trace_writer *writer, uint32_t path, const uint64_t *addresses)
{
    return trace_writer_execute_all(writer, &(struct trace_execution){addresses, path}, 1);
}
