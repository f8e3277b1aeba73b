/* SPDX-License-Identifier: MIT
 *
 * reader.h: reads a trace in batches of plain references, with the events between them.
 *
 *     struct trace_reader *reader = trace_reader_open(fd, error);
 *     struct trace_batch batch;
 *     while ((status = trace_reader_next(reader, &batch)) > 0)
 *         use(batch.references, batch.count, batch.events, batch.event_count);
 *     if (status < 0)
 *         report(trace_reader_error(reader));      // everything before it has been delivered
 *
 * A reader belongs to one thread at a time. Several readers may share one file when each has a
 * descriptor of its own.
 */
#ifndef ALLOTROPE_TRACE_FORMAT_READER_H
#define ALLOTROPE_TRACE_FORMAT_READER_H

#include "trace/base/instructions.h"
#include "trace/format/format.h"

struct trace_reader;

/* Opens a trace from its beginning; fd need not be seekable, and stays the caller's.
 * error: at least TRACE_ERROR_BYTES; says what is wrong when NULL is returned. */
struct trace_reader *trace_reader_open(int fd, char *error);

/* The next references and events. Returns 1, 0 at the end, or -1 where the trace is damaged or
 * ends early (trace_reader_error() says at which byte; everything before has been delivered).
 * The batch's arrays are the reader's, valid until its next call. */
int trace_reader_next(struct trace_reader *reader, struct trace_batch *batch);

/* Goes on at the chunk that holds this reference, counted from the trace's start. Needs a
 * seekable fd. The next batch begins at or before the reference; the mappings of that moment
 * precede it as events. Returns 0, or -1 with trace_reader_error(). */
int trace_reader_seek(struct trace_reader *reader, uint64_t reference);

/* How many references there are up to the end or to a damaged head, as the last head before says.
 * Needs a seekable fd; where the reader stands does not change. Returns as trace_reader_seek(). */
int trace_reader_count(struct trace_reader *reader, uint64_t *references);

/* What trace_writer_open() was told. */
const char *trace_reader_description(const struct trace_reader *reader);

/* Name and object of a function; "?" where it is not known. Valid until the reader is closed. */
const char *trace_reader_function(const struct trace_reader *reader, uint32_t id,
                                  const char **object);

/* To be called before anything is read: in the place of a function, references name their
 * instruction. */
void trace_reader_by_instruction(struct trace_reader *reader);
/* What such a number is; NULL where there is no such. Until the next batch is read. */
const struct instruction *trace_reader_instruction(const struct trace_reader *reader,
                                                   uint32_t number);

/* Counted while reading. */
const struct trace_totals *trace_reader_totals(const struct trace_reader *reader);

/* What the trace's end says about the run: NULL until the end has been read. */
const struct trace_totals *trace_reader_whole(const struct trace_reader *reader);

/* The error of the last call that returned -1. */
const char *trace_reader_error(const struct trace_reader *reader);

void trace_reader_close(struct trace_reader *reader);

#endif
