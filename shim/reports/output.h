/* SPDX-License-Identifier: MIT
 *
 * output.h: opens the files that reports go to, by system calls, and writes the head of a report.
 */
#ifndef ALLOTROPE_SHIM_REPORTS_OUTPUT_H
#define ALLOTROPE_SHIM_REPORTS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "shim/configuration/configuration.h"
#include "shim/reports/emitter.h"

/* The kernel takes no longer name (PATH_MAX). */
enum { OUTPUT_NAME_BYTES = 4096, OUTPUT_PASSED_TO_BYTES = 256 };

/* Who serves the calls that are passed on; "" where none are. Set before there is a second thread.
 * Reports name it instead of the allocator. */
extern char output_passed_to[OUTPUT_PASSED_TO_BYTES];

/* Whether the pattern is "" or "-". */
bool output_is_standard_error(const char *pattern);

/* The name of a report's file. */
struct output_pattern {
    const char *text;
    size_t folder_bytes; /* of the text, at its start: a folder, whose name is no pattern */
};

/* Keeps a pattern for output_write(): in memory of its own, and with the folder in which the
 * process is now, since it may be in another one at its end. text: NULL when it is too long, or
 * when there is no memory. */
struct output_pattern output_keep(const char *pattern);

/* Puts the name that a pattern has in this process into OUTPUT_NAME_BYTES at `name`: each "%p" is
 * the process id. False when it grows too long. */
bool output_expand(struct output_pattern pattern, char *name);

/* Says in one line that the file cannot be written to, with the variable that names it.
 * file: which took no more, or the error of a call that was to open it. */
void output_tell_unwritable(const char *name, const char *variable, long file);

/* Creates the file that `pattern` names and has `write` fill it. Each "%p" in the pattern becomes
 * the process id; a name that ends in ".json" asks for JSON. "" or "-" is standard error, if that
 * is still the program's, and asks for a table. A report that stands there is replaced by a whole
 * one in one step, where the folder allows it and the program is in no sandbox: else, and where
 * nothing stands there, it is written in place. A failure is reported in one line, with the
 * environment variable that holds the pattern. At the process's end only: one call at a time. */
void output_write(struct output_pattern pattern, const char *variable,
                  bool write(int file, bool json));

/* Begins the object that a report is: its schema, the process and the allocator. */
void output_begin(struct emitter *emitter, int file, bool json, const char *schema,
                  const struct configuration *configuration);
/* The allocator's own counters, an object for each group of them. */
void output_more_statistics(struct emitter *emitter, const struct allocator *allocator);
/* Ends it. False when not everything could be written. */
bool output_end(struct emitter *emitter);

#endif
