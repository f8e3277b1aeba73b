/* SPDX-License-Identifier: MIT
 *
 * output.h: the files that observers write, opened and closed by system calls.
 */
#ifndef ALLOTROPE_SHIM_REPORTS_OUTPUT_H
#define ALLOTROPE_SHIM_REPORTS_OUTPUT_H

#include <stdbool.h>

#include "shim/configuration/configuration.h"
#include "shim/reports/emitter.h"

enum { OUTPUT_NAME_BYTES = 512 };

/* "" or "-". */
bool output_is_standard_error(const char *pattern);

/* Creates the file that `pattern` names, with the process id in the place of each "%p", and has
 * `write` fill it. "" or "-" is standard error, if that is still the program's; a name that ends
 * in ".json" asks for JSON. A failure is said in one line, with the environment variable that
 * named the file. */
void output_write(const char *pattern, const char *variable, bool write(int file, bool json));

/* Opens the object that such a file is: what it is, and of which process. */
void output_begin(struct emitter *emitter, int file, bool json, const char *schema,
                  const struct configuration *configuration);
/* Closes it. False when not everything could be written. */
bool output_end(struct emitter *emitter);

#endif
