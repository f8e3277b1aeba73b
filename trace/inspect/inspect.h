/* SPDX-License-Identifier: MIT
 *
 * inspect.h: what allotrope-trace does with a trace.
 *
 * Each reads the trace to its end and returns 0, or what trace_reader_next() returned, -1, where
 * the trace is damaged: what came before has been told.
 */
#ifndef ALLOTROPE_TRACE_INSPECT_INSPECT_H
#define ALLOTROPE_TRACE_INSPECT_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/format/reader.h"

enum { EXIT_DAMAGED = 1, EXIT_USAGE = 2 };

/* Prints as JSON what there is. file_bytes: -1 where it is not known. */
int inspect_info(struct trace_reader *reader, int64_t file_bytes);

struct dump_format;

/* "csv", "din", "lackey" or "xdin"; NULL for any other name. */
const struct dump_format *inspect_dump_format(const char *name);
/* Prints a line for each reference. */
int inspect_dump(struct trace_reader *reader, const struct dump_format *format);
/* Writes DynamoRIO's binary records. -2: memory was short, which has been said. */
int inspect_drmemtrace(struct trace_reader *reader);
/* Prints a line for each event, CSV. */
int inspect_events(struct trace_reader *reader);
/* Prints as JSON what the program did with blocks that a collector holds for dead. */
int inspect_unsafe(struct trace_reader *reader);
/* Writes bare struct trace_reference, then struct trace_event, batch for batch, each batch behind
 * a header: what features/trace/reader.py reads. */
int inspect_export(struct trace_reader *reader);

/* Copies the first `count` references to a trace of that name, "-" being standard output. Returns
 * -2 where that cannot be written, having said why. */
int inspect_cut(struct trace_reader *reader, const char *output, uint64_t count);

/* Ends the program: standard output cannot be written. */
_Noreturn void inspect_output_failed(void);

#endif
