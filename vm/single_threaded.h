/* SPDX-License-Identifier: MIT
 *
 * single_threaded.h: whether the process has one thread, as glibc counts them.
 *
 * glibc's variable is false from the first pthread_create on, before the thread runs. A task that
 * `clone` makes without libc is not counted.
 */
#ifndef ALLOTROPE_VM_SINGLE_THREADED_H
#define ALLOTROPE_VM_SINGLE_THREADED_H

#include <stdbool.h>

extern char __libc_single_threaded __attribute__((weak));

/* False where libc does not tell. */
static inline bool single_threaded(void)
{
    return &__libc_single_threaded && __libc_single_threaded;
}

#endif
