/* SPDX-License-Identifier: MIT
 *
 * copy.h: passes on to a writer what a reader reads; what `allotrope trace cut` is made of.
 */
#ifndef ALLOTROPE_TRACE_FORMAT_COPY_H
#define ALLOTROPE_TRACE_FORMAT_COPY_H

#include "trace/format/reader.h"
#include "trace/format/writer.h"

/* Copies exactly, until `count` references are written or the input ends. Returns 0, or -1 with
 * trace_reader_error() or errno in *write_error. */
int trace_copy(struct trace_reader *reader, struct trace_writer *writer, uint64_t count,
               int *write_error);

#endif
