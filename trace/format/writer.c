/* SPDX-License-Identifier: MIT
 *
 * writer.c: opens and closes a trace, keeps what the caller describes, begins and ends chunks; see
 * writer_state.h.
 */
#include "trace/format/writer.h"

#include <errno.h>
#include <string.h>

#include "trace/base/array.h"
#include "trace/format/writer_state.h"

/* Chunks. */

static void subtract_totals(struct trace_totals *result, const struct trace_totals *from,
                            const struct trace_totals *what)
{
    uint64_t *r = (uint64_t *)result;
    const uint64_t *f = (const uint64_t *)from, *w = (const uint64_t *)what;
    for (size_t i = 0; i < sizeof *result / sizeof *r; i++)
        r[i] = f[i] - w[i];
}

/* Room for all that the executions of one chunk can come to; most of it is never touched. */
bool writer_reserve_streams(struct bytes *stream)
{
    /* A word may be put behind a stream's end that does not move the end. */
    const size_t slots = CHUNK_REFERENCES + MOST_SLOTS + sizeof(uint64_t);
    bool room =
        bytes_reserve(&stream[STREAM_TOKENS], CHUNK_EXECUTIONS) &&
        bytes_reserve(&stream[STREAM_IDS16], 2 * (size_t)CHUNK_EXECUTIONS + sizeof(uint64_t)) &&
        bytes_reserve(&stream[STREAM_IDS32], 4 * (size_t)CHUNK_EXECUTIONS) &&
        bytes_reserve(&stream[STREAM_CODES], slots);
    for (unsigned width = 0; width < 4; width++)
        room = room && bytes_reserve(&stream[STREAM_DELTAS8 + width], slots << width);
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
    writer->stack_untold = writer->stack;
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
    subtract_totals(&writer->header.added, &writer->totals, &writer->header.start);
    if (pack_streams_of(writer) < 0)
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

/* The slots' addresses follow from what is told before them. */
static bool slots_are_sound(uint32_t slot_count, const struct trace_slot *slots)
{
    for (uint32_t i = 0; i < slot_count; i++) {
        uint32_t base = slots[i].base;
        if (base >= TRACE_BASE_SLOT &&
            (base - TRACE_BASE_SLOT >= i || slots[base - TRACE_BASE_SLOT].base != TRACE_TOLD))
            return false;
    }
    return slot_count <= MOST_SLOTS;
}

int64_t trace_writer_superblock(struct trace_writer *writer, uint64_t address, uint32_t function,
                                uint32_t slot_count, const struct trace_slot *slots)
{
    if (!slots_are_sound(slot_count, slots)) {
        errno = EINVAL;
        return -1;
    }
    if (!array_reserve(&writer->superblocks, &writer->superblock_capacity, writer->superblock_count,
                       sizeof *writer->superblocks))
        return -1;
    struct writer_superblock *superblock = &writer->superblocks[writer->superblock_count];
    uint32_t told = count_told(slots, slot_count);
    *superblock = (struct writer_superblock){
        .address = address,
        .function = function,
        .slot_count = slot_count,
        .told_count = told,
        .slots = calloc(slot_count + 1, sizeof *slots),
        .states = calloc(told + 1, sizeof *superblock->states),
    };
    if (!superblock->slots || !superblock->states)
        return -1;
    if (slot_count > 0)
        memcpy(superblock->slots, slots, slot_count * sizeof *slots);
    return (int64_t)writer->superblock_count++;
}

/* What slots are derived from lies in the path. */
static bool path_is_sound(const struct trace_writer *writer, const struct trace_path *path)
{
    if (path->superblock >= writer->superblock_count || path->first > path->end ||
        path->end > writer->superblocks[path->superblock].slot_count)
        return false;
    const struct trace_slot *slots = writer->superblocks[path->superblock].slots;
    const uint32_t first = TRACE_BASE_SLOT + path->first, end = TRACE_BASE_SLOT + path->end;
    for (uint32_t i = path->first; i < path->end; i++)
        if (slots[i].base >= TRACE_BASE_SLOT && slots[i].base < first)
            return false;
    uint32_t base = path->stack_base;
    return base < TRACE_BASE_SLOT ||
           (base >= first && base < end && slots[base - TRACE_BASE_SLOT].base == TRACE_TOLD);
}

int64_t trace_writer_path(struct trace_writer *writer, const struct trace_path *path)
{
    if (!path_is_sound(writer, path)) {
        errno = EINVAL;
        return -1;
    }
    if (!array_reserve(&writer->paths, &writer->path_capacity, writer->path_count,
                       sizeof *writer->paths))
        return -1;
    const struct writer_superblock *superblock = &writer->superblocks[path->superblock];
    uint64_t references = 0, stores = 0;
    for (uint32_t i = path->first; i < path->end; i++) {
        references += superblock->slots[i].kind != TRACE_POINTER;
        stores += superblock->slots[i].kind == TRACE_STORE;
    }
    uint32_t before = count_told(superblock->slots, path->first);
    struct writer_path *kept = &writer->paths[writer->path_count];
    *kept = (struct writer_path){
        .states = superblock->states + before,
        .told = count_told(superblock->slots, path->end) - before,
        .instructions = path->instructions,
        .counted = references | stores << 32,
        .stack_word = path->stack_base == TRACE_BASE_NOTHING ? STACK_IS : STACK_MOVES,
        .stack_offset = path->stack_base == TRACE_TOLD ? 0 : path->stack_offset,
        .first_word = before,
        .path = *path,
    };
    if (path->stack_base >= TRACE_BASE_SLOT)
        kept->stack_word =
            (int32_t)(count_told(superblock->slots, path->stack_base - (uint32_t)TRACE_BASE_SLOT) -
                      before);
    if (path->end - path->first > writer->most_slots)
        writer->most_slots = path->end - path->first;
    return (int64_t)writer->path_count++;
}

void trace_writer_stack(struct trace_writer *writer, uint64_t pointer)
{
    writer->stack_untold += pointer - writer->stack;
    writer->stack = pointer;
}

/* Opening and closing. */

struct trace_writer *trace_writer_open(int fd, const char *description, int level)
{
    struct trace_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return NULL;
    struct trace_file_header header = {TRACE_FILE_MAGIC, TRACE_VERSION,
                                       sizeof(struct chunk_header)};
    const struct trace_slot none = {.size = 0};
    const struct trace_path nowhere = {.superblock = 0};
    struct packer *packer = &writer->packer;
    if (packer_begin(packer, fd, level) && writer_reserve_streams(writer->stream) &&
        trace_writer_superblock(writer, 0, 0, 0, &none) == 0 &&
        trace_writer_path(writer, &nowhere) == 0 &&
        pack_bytes(packer, &header, sizeof header) == 0 &&
        pack_chunk(packer, &writer->header, CHUNK_DESCRIPTION, description, strlen(description)) ==
            0 &&
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
    return __atomic_load_n(&writer->packer.offset, __ATOMIC_RELAXED);
}

void trace_writer_whole(struct trace_writer *writer, const struct trace_totals *whole)
{
    writer->whole = *whole;
    writer->has_whole = true;
}

static int write_end(struct trace_writer *writer)
{
    struct bytes payload = {NULL, 0, 0};
    struct packer *packer = &writer->packer;
    const struct bytes *index = &packer->index;
    if (writer_end_chunk(writer) < 0 || pack_wait(packer) < 0 ||
        !bytes_reserve(&payload, sizeof writer->whole + index->used))
        return -1;
    memcpy(payload.data, writer->has_whole ? &writer->whole : &writer->totals,
           sizeof writer->whole);
    if (index->used > 0)
        memcpy(payload.data + sizeof writer->whole, index->data, index->used);
    payload.used = sizeof writer->whole + index->used;
    memset(&writer->header.added, 0, sizeof writer->header.added);
    uint64_t end_offset = packer->offset;
    int status = pack_chunk(packer, &writer->header, CHUNK_END, payload.data, payload.used);
    free(payload.data);
    return status < 0 ? status : pack_bytes(packer, &end_offset, sizeof end_offset);
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
    packer_end(&writer->packer);
    free(writer);
}

static bool has_begun(const struct trace_writer *writer)
{
    return writer->path_count > 0 && trace_writer_bytes(writer) > 0;
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
    if (status == 0)
        status = pack_wait(&writer->packer);
    free_writer(writer);
    return status;
}
