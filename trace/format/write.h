/* SPDX-License-Identifier: MIT
 *
 * write.h: what the writers of files and of JSON share.
 */
#ifndef ALLOTROPE_TRACE_FORMAT_WRITE_H
#define ALLOTROPE_TRACE_FORMAT_WRITE_H

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

/* Returns 0 when all is written, or -1 with errno. */
static inline int write_all(int fd, const void *data, size_t bytes)
{
    const char *next = data;
    while (bytes > 0) {
        ssize_t written = write(fd, next, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        next += written;
        bytes -= (size_t)written;
    }
    return 0;
}

/* Prints text as a JSON string; bytes that are no printable ASCII as the characters of the same
 * numbers. */
static inline void print_json_string(FILE *output, const char *text)
{
    fputc('"', output);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < ' ' || byte > '~' || byte == '"' || byte == '\\')
            fprintf(output, "\\u%04x", byte);
        else
            fputc(byte, output);
    }
    fputc('"', output);
}

#endif
