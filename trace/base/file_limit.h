/* SPDX-License-Identifier: MIT
 *
 * file_limit.h: what a recorder shares with its program lies in a file without a name, which the
 * limit on the size of files (ulimit -f) holds for as well.
 */
#ifndef ALLOTROPE_TRACE_BASE_FILE_LIMIT_H
#define ALLOTROPE_TRACE_BASE_FILE_LIMIT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

/* Why a file of so many bytes cannot be made, or NULL where it can. The text is valid until the
 * next call. To be asked first: who exceeds the limit is killed by SIGXFSZ, unless that is ignored.
 */
static inline const char *file_limit_refuses(uint64_t bytes)
{
    static char reason[160];
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur >= bytes)
        return NULL;
    snprintf(reason, sizeof reason,
             "files may have %llu KiB here (ulimit -f), and what it shares with the program counts "
             "as one of %llu KiB; raise the limit",
             (unsigned long long)limit.rlim_cur / 1024, (unsigned long long)bytes / 1024);
    return reason;
}

#endif
