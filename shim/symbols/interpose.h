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

/* libc has a second name for a function that is defined in the same file. A program may define the
 * first name itself, and call the second there. A static program finds libc's own. */
#ifdef PIC
#define ALSO_CALLED(other, name)   \
    EXPORT __typeof__(name) other; \
    EXPORT __typeof__(name) other __attribute__((alias(#name)))
#else
#define ALSO_CALLED(other, name) _Static_assert(sizeof(name) > 0, "")
#endif

/* The program may define any of these names itself, and build it on another of them. So none of our
 * functions calls one by its public name. */
#define OWN(function) \
    static __typeof__(function) own_##function __attribute__((alias(#function), copy(function)))

/* Old headers declare these, or none does. */
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
