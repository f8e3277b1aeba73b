/* SPDX-License-Identifier: MIT
 *
 * write_all.h: writes all bytes to a file or a pipe, however many calls that takes.
 */
#ifndef ALLOTROPE_TRACE_BASE_WRITE_ALL_H
#define ALLOTROPE_TRACE_BASE_WRITE_ALL_H

#include <errno.h>
#include <stddef.h>
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

#endif
