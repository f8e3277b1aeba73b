/* SPDX-License-Identifier: MIT
 *
 * writer.h: writes a trace: superblocks are described once, then executed.
 *
 * A writer belongs to one thread at a time.
 */
#ifndef ALLOTROPE_TRACE_FORMAT_WRITER_H
#define ALLOTROPE_TRACE_FORMAT_WRITER_H

#include "trace/format/format.h"

struct trace_writer;

/* Begins a trace.
 * fd: where it goes; need not be seekable. The caller closes it, after trace_writer_close().
 * description: what the trace is of, a JSON object in one line; copied.
 * level: zstd's compression level. Returns NULL when memory is short or the first write fails. */
struct trace_writer *trace_writer_open(int fd, const char *description, int level);

/* Names function `id`, before the first superblock that lies in it. Strings are copied. */
int trace_writer_function(struct trace_writer *writer, uint32_t id, const char *name,
                          const char *object);

/* Describes a superblock; returns its number, or -1: memory is short, or a slot's base is no told
 * slot before it. At most TRACE_MOST_SLOTS slots. */
int64_t trace_writer_superblock(struct trace_writer *writer, uint64_t address, uint32_t function,
                                uint32_t slot_count, const struct trace_slot *slots);

/* Describes a way through a superblock. Returns its number, or -1 when memory is short or the path
 * makes no sense. Events that fall inside a superblock divide it into several paths. */
int64_t trace_writer_path(struct trace_writer *writer, const struct trace_path *path);

/* The stack pointer has changed by other means than paths; at first it is 0. */
void trace_writer_stack(struct trace_writer *writer, uint64_t pointer);

/* A path was taken, with these addresses for its told slots: TRACE_ABSENT for an access that did
 * not take place. Returns 0, or -1 when the trace cannot be written; errno says why. */
int trace_writer_execute(struct trace_writer *writer, uint32_t path, const uint64_t *addresses);

/* Many at once, in their order. */
int trace_writer_execute_all(struct trace_writer *writer, const struct trace_execution *executions,
                             size_t count);

/* An event happened: of `event`, type, value and name count. CLASS and THREAD govern what
 * follows. Returns as trace_writer_execute(). */
int trace_writer_event(struct trace_writer *writer, const struct trace_event *event);

/* What has been written. */
const struct trace_totals *trace_writer_totals(const struct trace_writer *writer);

/* Totals of the run that this trace is a part of, where it is not the whole. */
void trace_writer_whole(struct trace_writer *writer, const struct trace_totals *whole);

/* Bytes written so far. */
uint64_t trace_writer_bytes(const struct trace_writer *writer);

/* Writes what is left and the index, and frees the writer. Returns as trace_writer_execute(). */
int trace_writer_close(struct trace_writer *writer);

/* Likewise for a trace that is not all that it should be: what is left is written, but no end, so
 * that every reader says that the trace was cut short. */
int trace_writer_abandon(struct trace_writer *writer);

#endif
