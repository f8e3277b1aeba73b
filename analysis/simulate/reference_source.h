/* SPDX-License-Identifier: MIT
 *
 * reference_source.h: where allotrope-simulate gets its references from: a trace, the text of
 * Valgrind's lackey, or a program that runs under the recorder meanwhile.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_REFERENCE_SOURCE_H
#define ALLOTROPE_ANALYSIS_SIMULATE_REFERENCE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/simulate/filter.h"
#include "analysis/simulate/simulators/reference.h"
#include "analysis/simulate/simulators/series.h"
#include "trace/base/instructions.h"
#include "trace/base/json.h"
#include "trace/base/range_map.h"

struct reference_source;

enum { REFERENCE_SOURCE_LEAST_ROOM = 2048 };

/* Opens a file, "-" being standard input, which may be a pipe. What it is, its first byte tells.
 * Returns NULL when it cannot be read; *error is then one line of text. */
struct reference_source *reference_source_open(const char *path, const char **error);

/* Starts a program under the recorder. tools: the recorder's directory. environment: a
 * NULL-terminated list of NAME=VALUE for the program alone. Returns and *error as above. To be
 * called from the thread that lives longest; SIGTERM and SIGHUP then go to the program too, and
 * a SIGINT from the terminal ends the program, not the caller. */
struct reference_source *reference_source_start(const char *tools, char *const *environment,
                                                char *const *command, const char **error);

/* Ends a program that still runs. */
void reference_source_close(struct reference_source *source);

/* Where references go, and what is told of each. What may be NULL is then not wanted, and must
 * always be wanted, or never. */
struct reference_room {
    size_t room;
    struct reference *references;
    uint8_t *regions;  /* [room], enum region_class; or NULL */
    uint32_t *windows; /* [room], the window of time it falls into; or NULL */
};

/* Fills at most `room` references and returns how many; 0 at the end and on errors. There must be
 * room for REFERENCE_SOURCE_LEAST_ROOM where a program runs. */
size_t reference_source_next(struct reference_source *source, const struct reference_room *room);

/* From the beginning on only what passes is delivered. The filter stays the caller's. Returns NULL,
 * or one line that says what of it the source cannot answer. */
const char *reference_source_filter(struct reference_source *source, struct filter *filter);

/* A trace in parts, each read by a source of its own, from a file that can be sought. */

/* How many references it has, as far as can be told without reading them: there may be more behind
 * damage. Returns NULL, or one line that says why it cannot be read in parts. */
const char *reference_source_count(struct reference_source *source, uint64_t *references);
/* From the beginning on only references from number `from` up to before `to` are delivered. Where
 * `to` is UINT64_MAX the trace is read to its end, and damage there is told. Not with regions and
 * windows. Returns NULL, or one line that says why it cannot be. */
const char *reference_source_set_part(struct reference_source *source, uint64_t from, uint64_t to);
/* What is told of `source` then holds for its part and the next, of which `later` has come to the
 * end. */
void reference_source_join(struct reference_source *source, const struct reference_source *later);
/* Like reference_source_join(), but for a part that another process has read. What is told of the
 * part goes to a file, and is read back from it. False: it cannot be written, or the file is cut.
 */
bool reference_source_write_told(const struct reference_source *source, FILE *file);
bool reference_source_join_told(struct reference_source *source, FILE *file);

/* NULL: everything passes. */
const struct filter *reference_source_filtered_by(const struct reference_source *source);

/* By what windows of time are measured. */
enum window_clock { WINDOW_REFERENCES, WINDOW_ALLOCATED_BYTES };
enum { WINDOW_SMALLEST = 256 };

/* How long a window is, of references or bytes, WINDOW_SMALLEST at least; references that do not
 * pass a filter take time too. Returns as above. */
const char *reference_source_set_windows(struct reference_source *source, enum window_clock clock,
                                         uint64_t width);
enum window_clock reference_source_window_clock(const struct reference_source *source);
uint64_t reference_source_window_width(const struct reference_source *source);
/* The references delivered, by window. Current until more are. */
struct series *reference_source_windows(struct reference_source *source);
/* Whether the source tells of regions. */
bool reference_source_has_regions(const struct reference_source *source);
/* NULL while all is well: what is wrong with the input, and where. What came before it has been
 * delivered. */
const char *reference_source_error(const struct reference_source *source);
/* Waits for the program that was started and returns its exit status, 128 and the signal's number
 * when a signal ended it; 0 for files. */
int reference_source_status(struct reference_source *source);

/* "process": what is known of the program that was started, at its end. */
void reference_source_put_process(struct json *json, const struct reference_source *source);

/* Whether references of more than one thread have come: 1 or 0, -1 where it cannot be known. */
int reference_source_threaded(const struct reference_source *source);
/* From the beginning on, references name their instruction in the place of its function. Returns
 * NULL, or one line that says why that cannot be. */
const char *reference_source_by_instruction(struct reference_source *source);
/* What such a number is. NULL: references name functions. */
const struct instruction *reference_source_instruction(const struct reference_source *source,
                                                       uint32_t number);
/* The files that were mapped, by address; their names are reference_source_file()'s. */
const struct range_map *reference_source_files(const struct reference_source *source);
const char *reference_source_file(const struct reference_source *source, size_t number);

/* The name of a function by its number, NULL where it is not known. */
const char *reference_source_name_of(const struct reference_source *source, uint32_t function);
/* Likewise of the function that a reference names, itself or by its instruction. */
const char *reference_source_function_name(const struct reference_source *source,
                                           uint32_t function);

#endif
