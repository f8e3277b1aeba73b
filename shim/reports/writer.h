/* SPDX-License-Identifier: MIT
 *
 * writer.h: text for a file, collected in a buffer and written by system calls.
 *
 * It needs no libc, no heap and no lock, so a report can be written at exit, in a full heap and
 * with stdio gone.
 */
#ifndef ALLOTROPE_SHIM_REPORTS_WRITER_H
#define ALLOTROPE_SHIM_REPORTS_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct writer {
    int descriptor;
    bool failed; /* the file took no more; what follows is dropped */
    size_t length;
    char buffer[4096];
};

void writer_begin(struct writer *writer, int descriptor);
void writer_bytes(struct writer *writer, const char *text, size_t length);
void writer_text(struct writer *writer, const char *text);
void writer_spaces(struct writer *writer, size_t count);
/* In decimal, with zeros in front when it has less than `least_digits`, at most DECIMAL_BYTES. */
void writer_number(struct writer *writer, uint64_t number, size_t least_digits);
/* As seconds with nine decimals. */
void writer_seconds(struct writer *writer, uint64_t nanoseconds);
/* Writes what is still in the buffer. False when not everything could be written. */
bool writer_end(struct writer *writer);

#endif
