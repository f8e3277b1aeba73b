/* SPDX-License-Identifier: MIT
 *
 * next_call.h: the function behind one that is interposed.
 */
#ifndef ALLOTROPE_SHIM_SYSTEM_CALLS_NEXT_CALL_H
#define ALLOTROPE_SHIM_SYSTEM_CALLS_NEXT_CALL_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

/* libc's own function, or that of a library between; NULL in a static program. */
static inline void *next_of(void *_Atomic *kept, const char *name)
{
    void *function = atomic_load_explicit(kept, memory_order_relaxed);
    if (!function) {
        function = dlsym(RTLD_NEXT, name);
        atomic_store_explicit(kept, function, memory_order_relaxed);
    }
    return function;
}

/* Declares `next`, the function of the same name behind this one. */
#define FIND_NEXT(name)        \
    static void *_Atomic kept; \
    __typeof__(name) *next = next_of(&kept, #name)

#endif
