/* SPDX-License-Identifier: MIT
 *
 * copy.c: passes on to a writer what a reader reads, execution by execution.
 */
#include "trace/format/copy.h"

#include <errno.h>
#include <inttypes.h>

#include "trace/format/reader_state.h"

/* The base's number for slots that begin at `first`. */
static uint16_t rebased(uint16_t base, uint32_t first)
{
    return (uint16_t)(base >= TRACE_BASE_SLOT ? base - first : base);
}

/* Describes the path's slots [first, end) to the writer, as a superblock of their own. Returns the
 * path's number, or -1. */
static int64_t describe_path(struct trace_reader *reader, struct trace_writer *writer,
                             const struct trace_path *path)
{
    const struct superblock *superblock = &reader->superblocks[path->superblock];
    uint32_t count = path->end - path->first;
    struct trace_slot *slots = calloc(count + 1, sizeof *slots);
    if (!slots)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        slots[i] = reader->slots[superblock->first_slot + path->first + i];
        slots[i].base = rebased(slots[i].base, path->first);
    }
    const char *object, *name = trace_reader_function(reader, superblock->function, &object);
    int64_t copy = -1;
    if (trace_writer_function(writer, superblock->function, name, object) == 0)
        copy = trace_writer_superblock(writer, superblock->address, superblock->function, count,
                                       slots);
    free(slots);
    struct trace_path described = {
        (uint32_t)copy,    0, count, path->instructions, rebased(path->stack_base, path->first),
        path->stack_offset};
    return copy < 0 ? -1 : trace_writer_path(writer, &described);
}

/* The path shortened to the slots up to `end`; nothing follows it. */
static int64_t shortened_path(struct trace_reader *reader, struct trace_writer *writer,
                              const struct path *path, uint32_t end)
{
    struct trace_path part = path->path;
    part.end = end;
    part.stack_base = TRACE_TOLD;
    return describe_path(reader, writer, &part);
}

/* How many references the path's slots make, as far as they fit into `room`; `end` is the slot
 * where it is full. */
static uint64_t count_present(const struct trace_reader *reader, const struct path *path,
                              const uint64_t *addresses, uint64_t room, uint32_t *end)
{
    const struct trace_slot *slots =
        reader->slots + reader->superblocks[path->path.superblock].first_slot;
    uint64_t present = 0;
    uint32_t i = path->path.first;
    for (; i < path->path.end; i++) {
        bool absent = slots[i].base == TRACE_TOLD && *addresses++ == TRACE_ABSENT;
        if (absent || slots[i].kind == TRACE_POINTER)
            continue;
        if (present == room)
            break;
        present++;
    }
    *end = i;
    return present;
}

static int copy_execution(struct trace_reader *reader, struct trace_writer *writer, uint64_t count,
                          int *write_error)
{
    static _Thread_local uint64_t addresses[MOST_SLOTS];
    trace_writer_stack(writer, reader->stack);
    struct path *path = reader_decode_addresses(reader, addresses);
    if (!path)
        return -1;
    uint32_t end;
    uint64_t present = count_present(reader, path, addresses, UINT64_MAX, &end);
    reader->totals.references += present;
    reader->totals.by_class[reader->class] += present;
    uint64_t room = count - trace_writer_totals(writer)->references;
    int64_t number = -1;
    if (count_present(reader, path, addresses, room, &end) < present)
        number = shortened_path(reader, writer, path, end);
    else
        number = path->copied =
            path->copied >= 0 ? path->copied : describe_path(reader, writer, &path->path);
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
            if (reader->event_count > 0 && trace_writer_event(writer, reader->events) < 0) {
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
