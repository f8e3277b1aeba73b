/* SPDX-License-Identifier: MIT
 *
 * trace_sink.c: a sink that writes a trace.
 */
#include "trace/references/trace_sink.h"

static int write_function(void *writer, uint32_t id, const char *name, const char *object)
{
    return trace_writer_function(writer, id, name, object);
}

static int64_t write_superblock(void *writer, uint64_t address, uint32_t function,
                                uint32_t slot_count, const struct trace_slot *slots)
{
    return trace_writer_superblock(writer, address, function, slot_count, slots);
}

static int64_t write_path(void *writer, const struct trace_path *path)
{
    return trace_writer_path(writer, path);
}

static void write_stack(void *writer, uint64_t pointer)
{
    trace_writer_stack(writer, pointer);
}

static int write_executions(void *writer, const struct trace_execution *executions, size_t count)
{
    return trace_writer_execute_all(writer, executions, count);
}

static int write_event(void *writer, const struct trace_event *event)
{
    return trace_writer_event(writer, event);
}

struct raw_sink trace_sink(struct trace_writer *writer)
{
    return (struct raw_sink){writer,      write_function,   write_superblock, write_path,
                             write_stack, write_executions, write_event};
}
