/* SPDX-License-Identifier: MIT
 *
 * interpose.h: what the files of interposed symbols share.
 */
#ifndef ALLOTROPE_SHIM_SYMBOLS_INTERPOSE_H
#define ALLOTROPE_SHIM_SYMBOLS_INTERPOSE_H

#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

#include "vm/syscall.h"

#define EXPORT __attribute__((visibility("default")))

/* In old headers, or in none. */
EXPORT void cfree(void *block);
EXPORT void free_sized(void *block, size_t size);
EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size);
EXPORT void *__libc_malloc(size_t size);
EXPORT void *__libc_calloc(size_t count, size_t size);
EXPORT void *__libc_memalign(size_t alignment, size_t size);
EXPORT void *__libc_realloc(void *block, size_t size);
EXPORT void __libc_free(void *block);

/* What libc's function returns where the kernel has returned this: -1 and errno for a failure. */
static inline ssize_t libc_result(long result)
{
    if (!syscall_failed(result))
        return result;
    errno = (int)-result;
    return -1;
}

#endif
