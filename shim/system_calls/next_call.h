/* SPDX-License-Identifier: MIT
 *
 * next_call.h: the function behind one that is interposed.
 */
#ifndef ALLOTROPE_SHIM_SYSTEM_CALLS_NEXT_CALL_H
#define ALLOTROPE_SHIM_SYSTEM_CALLS_NEXT_CALL_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/* libc's own function, or that of a library between; NULL where there is none. It is looked for
 * once: a search that fails allocates, and is told by dlerror(). kept: itself for none. */
static inline void *next_of(void *_Atomic *kept, const char *name)
{
#ifdef PIC
    void *function = atomic_load_explicit(kept, memory_order_relaxed);
    if (!function) {
        function = dlsym(RTLD_NEXT, name);
        atomic_store_explicit(kept, function ? function : (void *)kept, memory_order_relaxed);
    }
    return function == (void *)kept ? NULL : function;
#else /* the archive, for static programs: nothing can be found from there */
    (void)kept;
    (void)name;
    return NULL;
#endif
}

/* Declares `next`, the function of the same name behind this one. */
#define FIND_NEXT(name)        \
    static void *_Atomic kept; \
    __typeof__(name) *next = next_of(&kept, #name)

/* A system call in place of a function of libc's that is a point of cancellation. As libc does it:
 * while the call waits its thread may be cancelled at any time. */
#ifdef PIC
#define CANCELLABLE(call) (call)
#else
static inline long set_cancel_type(int type, int *before, long result)
{
    pthread_setcanceltype(type, before);
    return result;
}

#define CANCELLABLE(call)                                              \
    ({                                                                 \
        int cancel_type;                                               \
        set_cancel_type(PTHREAD_CANCEL_ASYNCHRONOUS, &cancel_type, 0); \
        set_cancel_type(cancel_type, &cancel_type, (call));            \
    })
#endif

#endif
