/* SPDX-License-Identifier: MIT
 *
 * flush_all.h: whether all that was printed has been written.
 *
 * A write that fails loses what it had, and the next one may succeed: standard output is a pipe
 * that does not block, or the disk has room again. So the last flush does not tell.
 */
#ifndef ALLOTROPE_TRACE_BASE_FLUSH_ALL_H
#define ALLOTROPE_TRACE_BASE_FLUSH_ALL_H

#include <errno.h>
#include <stdio.h>

/* Returns 0, or -1 with errno: EIO where an earlier write has failed. */
static inline int flush_all(FILE *file)
{
    if (fflush(file) != 0)
        return -1;
    if (!ferror(file))
        return 0;
    errno = EIO;
    return -1;
}

#endif
