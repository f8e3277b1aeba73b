/* SPDX-License-Identifier: MIT
 *
 * output.h: the files that observers write, opened and closed by system calls.
 */
#ifndef ALLOTROPE_SHIM_OUTPUT_H
#define ALLOTROPE_SHIM_OUTPUT_H

#include <stdbool.h>

enum { OUTPUT_NAME_BYTES = 512 };

/* "" or "-". */
bool output_is_standard_error(const char *pattern);

/* Creates the file that `pattern` names, with the process id in the place of each "%p", and has
 * `write` fill it. "" or "-" is standard error, if that is still the program's; a name that ends
 * in ".json" asks for JSON. A failure is said in one line, with the environment variable that
 * named the file. */
void output_write(const char *pattern, const char *variable, bool write(int file, bool json));

#endif
