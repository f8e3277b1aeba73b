/* SPDX-License-Identifier: MIT
 *
 * cut.c: the first part of a trace, as a trace.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trace/base/output_file.h"
#include "trace/format/copy.h"
#include "trace/inspect/inspect.h"

/* The totals that the input's end states; the input is read on to there. */
static int read_whole(struct trace_reader *reader, struct trace_totals *whole)
{
    struct trace_batch batch;
    int status;
    while ((status = trace_reader_next(reader, &batch)) > 0)
        ;
    if (status == 0)
        *whole = *trace_reader_whole(reader);
    return status;
}

int inspect_cut(struct trace_reader *reader, const char *output, uint64_t count)
{
    struct output_file file = {.fd = STDOUT_FILENO};
    bool opened = strcmp(output, "-") == 0 || output_file_open(&file, output) == 0;
    struct trace_writer *writer =
        opened ? trace_writer_open(file.fd, trace_reader_description(reader), 1) : NULL;
    if (!writer) {
        fprintf(stderr, "allotrope: %s: %s\n", output, strerror(errno));
        output_file_close(&file);
        return -2;
    }
    int error;
    int status = trace_copy(reader, writer, count, &error);
    uint64_t kept = trace_writer_totals(writer)->references;
    if (status == 0 && kept < count)
        fprintf(stderr, "allotrope: the trace has %" PRIu64 " references; all are kept\n", kept);
    struct trace_totals whole = *trace_reader_totals(reader);
    if (status == 0 && read_whole(reader, &whole) < 0)
        status = -1;
    if (status == 0)
        trace_writer_whole(writer, &whole);
    int written = status == 0 ? trace_writer_close(writer) : trace_writer_abandon(writer);
    if (written < 0 && error == 0)
        error = errno;
    file.worth = status == 0 && error == 0 ? OUTPUT_WHOLE : OUTPUT_CUT;
    if (output_file_close(&file) < 0 && error == 0)
        error = errno;
    if (error != 0) {
        fprintf(stderr, "allotrope: %s: %s\n", output, strerror(error));
        return -2;
    }
    return status;
}
