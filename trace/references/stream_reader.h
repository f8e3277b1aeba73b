/* SPDX-License-Identifier: MIT
 *
 * stream_reader.h: batches of references from a program that is running, as format/reader.h makes
 * them from a file.
 */
#ifndef ALLOTROPE_TRACE_REFERENCES_STREAM_READER_H
#define ALLOTROPE_TRACE_REFERENCES_STREAM_READER_H

#include <stdbool.h>

#include "trace/format/format.h"
#include "trace/references/stream.h"

struct trace_stream_reader;

/* As a trace_reader, but of a program that is running. NULL when memory is short. */
struct trace_stream_reader *trace_stream_reader_open(struct trace_stream *stream);

enum { TRACE_STREAM_LEAST_ROOM = 2048 };

/* As trace_reader_next(), but the references are the caller's: room for `room` of them, of which
 * there must be TRACE_STREAM_LEAST_ROOM. A batch holds references of any threads; batch->thread is
 * the first's, events tell the others. */
int trace_stream_reader_next(struct trace_stream_reader *reader, struct trace_reference *references,
                             size_t room, struct trace_batch *batch);

/* Whether references of more than one thread have come. */
bool trace_stream_reader_threaded(const struct trace_stream_reader *reader);
const char *trace_stream_reader_function(const struct trace_stream_reader *reader, uint32_t id,
                                         const char **object);

/* As trace_reader_by_instruction() and trace_reader_instruction(). */
void trace_stream_reader_by_instruction(struct trace_stream_reader *reader);
const struct instruction *trace_stream_reader_instruction(const struct trace_stream_reader *reader,
                                                          uint32_t number);
const char *trace_stream_reader_error(const struct trace_stream_reader *reader);
void trace_stream_reader_close(struct trace_stream_reader *reader);

#endif
