/* SPDX-License-Identifier: MIT */
/* reference_source.h: where allotrope-simulate gets its references from. */
#ifndef ANALYSIS_REFERENCE_SOURCE_H
#define ANALYSIS_REFERENCE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "analysis/simulators/reference.h"

struct reference_source;

/* Opens a file, "-" being standard input. What the file is, its first bytes tell: a trace of
 * `allotrope record`, or the text that valgrind --tool=lackey --trace-mem=yes prints. Returns
 * NULL when it cannot be read; *error is then one line of text. */
struct reference_source *reference_source_open(const char *path, const char **error);
void reference_source_close(struct reference_source *source);

/* Fills at most `room` references and returns how many; 0 at the end and on errors. */
size_t reference_source_next(struct reference_source *source, struct reference *references,
                             size_t room);
/* NULL while all is well: what is wrong with the input, and where. What came before it has been
 * delivered. */
const char *reference_source_error(const struct reference_source *source);

/* What a class is called; NULL where it has no name. */
const char *reference_source_class_name(unsigned class);

#endif
