/* SPDX-License-Identifier: MIT
 *
 * remove_empty.h: a recording whose disk was full from the beginning leaves no file. What has
 * content stays: it can be read as far as it goes.
 */
#ifndef ALLOTROPE_TRACE_BASE_REMOVE_EMPTY_H
#define ALLOTROPE_TRACE_BASE_REMOVE_EMPTY_H

#include <sys/stat.h>
#include <unistd.h>

/* Removes a regular file without content. Devices, pipes and links stay. */
static inline void remove_empty(const char *path)
{
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 0)
        unlink(path);
}

#endif
