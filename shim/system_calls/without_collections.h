/* SPDX-License-Identifier: MIT
 *
 * without_collections.h: holds collections off during a system call.
 *
 * May be used in a signal handler and in a vfork child: it takes no memory but the stack.
 */
#ifndef ALLOTROPE_SHIM_SYSTEM_CALLS_WITHOUT_COLLECTIONS_H
#define ALLOTROPE_SHIM_SYSTEM_CALLS_WITHOUT_COLLECTIONS_H

#include "shim/route/route.h"
#include "shim/system_calls/next_call.h"

static inline const struct allocator *hold_collections(void)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (allocator->before_exec)
        allocator->before_exec();
    return allocator;
}

/* result: what the call between the two has returned. */
static inline int allow_collections(const struct allocator *allocator, int result)
{
    if (allocator->after_exec)
        allocator->after_exec();
    return result;
}

/* The body of a function that is interposed: the function behind it, with collections held. */
#define NEXT_WITHOUT_COLLECTIONS(name, ...)                     \
    do {                                                        \
        FIND_NEXT(name);                                        \
        const struct allocator *allocator = hold_collections(); \
        return allow_collections(allocator, next(__VA_ARGS__)); \
    } while (0)

#endif
