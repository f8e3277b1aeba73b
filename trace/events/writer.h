/* SPDX-License-Identifier: MIT
 *
 * writer.h: writes a file of allocation events.
 */
#ifndef ALLOTROPE_TRACE_EVENTS_WRITER_H
#define ALLOTROPE_TRACE_EVENTS_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "trace/events/chunk.h"

struct event_writer;

/* fd: stays the caller's. level: zstd's, 0 for none. stamp, nanoseconds: one moment before any
 * event, from which the file's time is told. NULL: memory is short, or errno. */
struct event_writer *event_writer_open(int fd, const char *description, int level, uint64_t stamp,
                                       uint64_t nanoseconds);
/* Returns 0, or -1 with errno. */
int event_writer_add(struct event_writer *writer, enum event_chunk_type type, uint32_t thread,
                     const void *content, size_t bytes);
/* Writes the end, and frees the writer in any case. Returns as event_writer_add(). */
int event_writer_close(struct event_writer *writer, const char *end);

#endif
