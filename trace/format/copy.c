/* SPDX-License-Identifier: MIT
 *
 * copy.c: passes on to a writer what a reader reads, execution by execution.
 */
#include "trace/format/copy.h"

#include <errno.h>
#include <inttypes.h>

#include "trace/format/reader_state.h"

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
    const struct trace_reference *end = reader_decode_whole(reader);
    if (!end)
        return -1;
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
        int status = reader_ensure_chunk(reader);
        if (status <= 0)
            return status;
        if (reader->next_event <= reader->executions) {
            reader->event_count = 0;
            reader->names.used = 0;
            if (reader_next_event(reader) < 0)
                return -1;
            struct trace_batch batch;
            reader_fill_batch(reader, &batch, 0);
            if (trace_writer_event(writer, reader->events) < 0) {
                *write_error = errno;
                return -1;
            }
        } else if (reader->executions == reader->execution_count) {
            return reader_fail(reader, reader->chunk_offset, "an event lies beyond its chunk");
        } else if (copy_execution(reader, writer, count, write_error) < 0) {
            return -1;
        }
    }
    return 0;
}
