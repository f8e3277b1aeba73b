/* SPDX-License-Identifier: MIT
 *
 * output.h: the files that observers write, opened and closed by system calls.
 */
#ifndef ALLOTROPE_SHIM_OUTPUT_H
#define ALLOTROPE_SHIM_OUTPUT_H

#include <stdbool.h>

enum { OUTPUT_NAME_BYTES = 512 };

/* Creates the file that `pattern` names, with the process id in the place of each "%p", and
 * leaves its name in `name`. -1 when it cannot be created. */
int output_open(const char *pattern, char name[OUTPUT_NAME_BYTES]);

/* Whether the name asks for JSON: it ends in ".json". */
bool output_is_json(const char *name);

/* Closes the file, if it is open. Not `written` is said in one line, with the environment variable
 * that named it. */
void output_close(int file, const char *name, bool written, const char *variable);

#endif
