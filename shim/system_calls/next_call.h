/* SPDX-License-Identifier: MIT
 *
 * next_call.h: the function behind one that is interposed: libc's own, or that of a library
 * between.
 *
 * To search for such a function takes the loader's lock. Most of these functions may be called
 * where nobody must wait for that lock: in a signal handler, or in the child of vfork or of _Fork.
 * The lock's holder may wait for a collection, and the collection for the parent of the vfork. In
 * the child of _Fork nobody releases the lock. So a constructor finds all of the functions
 * beforehand (next_call.c). Only a call that comes before the constructor searches by itself.
 */
#ifndef ALLOTROPE_SHIM_SYSTEM_CALLS_NEXT_CALL_H
#define ALLOTROPE_SHIM_SYSTEM_CALLS_NEXT_CALL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/* found: NULL until it is found; `found` itself where a call has looked in vain. Later calls do not
 * look again: a search that fails allocates, and is told by dlerror(). (Where the constructor has
 * looked in vain, `found` stays NULL, and the first call looks.) Writer: whoever looks. */
struct next_function {
    const char *name;
    void *_Atomic found;
};

#ifdef PIC
/* Defines the record of a function. The constructor finds all that stand in this section. */
#define NEXT_FUNCTION(record, name)    \
    static struct next_function record \
        __attribute__((section("next_functions"), used, aligned(16))) = {name, NULL}

__attribute__((visibility("hidden"))) void next_look_up(struct next_function *function);

/* NULL where there is none, and where it was not looked for. */
static inline void *next_if_known(struct next_function *function)
{
    void *found = atomic_load_explicit(&function->found, memory_order_relaxed);
    return found == (void *)&function->found ? NULL : found;
}

/* NULL where there is none. */
static inline void *next_of(struct next_function *function)
{
    if (!atomic_load_explicit(&function->found, memory_order_relaxed))
        next_look_up(function);
    return next_if_known(function);
}
#else /* the archive, for static programs: nothing can be found from there */
#define NEXT_FUNCTION(record, name) static struct next_function record = {name, NULL}

static inline void *next_if_known(struct next_function *function)
{
    (void)function;
    return NULL;
}

static inline void *next_of(struct next_function *function)
{
    return next_if_known(function);
}
#endif

/* Declares `next`, the function of the same name behind this one. */
#define FIND_NEXT(name)                \
    NEXT_FUNCTION(next_record, #name); \
    __typeof__(name) *next = next_of(&next_record)

/* The same, for a function that is a plain system call: `next` is NULL where it is not known yet,
 * and the system call is to be made. */
#define NEXT_IF_KNOWN(name)            \
    NEXT_FUNCTION(next_record, #name); \
    __typeof__(name) *next = next_if_known(&next_record)

/* CANCELLABLE(call) makes a system call in place of a function of libc's that is a cancellation
 * point. As in libc, the thread may be cancelled at any time while the call waits. */
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
