/* SPDX-License-Identifier: MIT
 *
 * output_file.h: the file that a result goes to. It is written beside its place and then renamed,
 * as the command's own outputs are: whoever kills us finds the old file or the new one.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_OUTPUT_FILE_H
#define ALLOTROPE_ANALYSIS_SIMULATE_OUTPUT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

struct output_file {
    FILE *stream;
    char place[PATH_MAX];  /* to be renamed to; empty where `stream` is the place itself */
    char beside[PATH_MAX]; /* what `stream` writes */
};

/* Whether a file of that name can be written, found out before the work: nothing is made. False:
 * errno says why not. "-" is standard output. */
bool output_file_is_writable(const char *path);
/* What is no file (a pipe, a device), or lies where no other can be made, is written to as it is.
 * False: errno says why it cannot be opened. */
bool output_file_open(struct output_file *file, const char *path);
/* Puts the file into its place. False: errno says why it is not there. */
bool output_file_close(struct output_file *file);

#endif
