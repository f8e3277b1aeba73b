/* SPDX-License-Identifier: MIT
 *
 * without_collections.h: holds collections off during a system call.
 *
 * A signal handler that interrupts the call may never return to it: it jumps out (siglongjmp), or
 * ends its thread. libc calls then what _pthread_cleanup_push has noted in frames that are left, so
 * that ends the hold. (A jump by setcontext leaves no frame in libc's eyes: the hold stays.)
 *
 * Invariant
 * [held is noted]  The program's signals are blocked while a hold begins, and while it ends. So no
 *                  handler comes between the hold and its note. (The note is taken back later. It
 *                  does nothing then: `allocator` is NULL.) A vfork child holds nothing and
 *                  notes nothing: it has its parent's thread-local storage, and leaves its frames
 *                  without a word to libc.
 *
 * May be used in a signal handler and in a vfork child: it takes no memory but the stack.
 */
#ifndef ALLOTROPE_SHIM_SYSTEM_CALLS_WITHOUT_COLLECTIONS_H
#define ALLOTROPE_SHIM_SYSTEM_CALLS_WITHOUT_COLLECTIONS_H

#include <pthread.h>
#include <stddef.h>

#include "shim/route/route.h"
#include "shim/system_calls/next_call.h"
#include "vm/signals.h"

/* In libc, and in no header any more. The macros of <pthread.h> know nothing of jumps. */
extern void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buffer, void (*function)(void *),
                                  void *argument);
extern void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buffer, int execute);

struct hold {
    const struct allocator *allocator; /* NULL: it holds nothing, or nothing any more */
    struct _pthread_cleanup_buffer note;
};

static inline void end_hold(void *argument)
{
    struct hold *hold = argument;
    uint64_t before = signals_block(signals_of_program());
    if (hold->allocator)
        hold->allocator->after_exec();
    hold->allocator = NULL;
    signals_restore(before);
}

/* Without collections there is nothing to hold, and nothing is asked of the kernel: the process may
 * be in a sandbox. Else [held is noted]. */
static inline void hold_collections(struct hold *hold)
{
    const struct allocator *allocator = route_resolve()->allocator;
    hold->allocator = NULL;
    if (!allocator->before_exec || !allocator->needs_pins())
        return;
    uint64_t before = signals_block(signals_of_program());
    if (allocator->before_exec()) {
        hold->allocator = allocator;
        _pthread_cleanup_push(&hold->note, end_hold, hold);
    }
    signals_restore(before);
}

/* result: what the call between the two has returned. */
static inline int allow_collections(struct hold *hold, int result)
{
    if (hold->allocator) {
        end_hold(hold);
        _pthread_cleanup_pop(&hold->note, 0);
    }
    return result;
}

/* The body of a function that is interposed: the function behind it, with collections held. */
#define NEXT_WITHOUT_COLLECTIONS(name, ...)                 \
    do {                                                    \
        FIND_NEXT(name);                                    \
        struct hold hold;                                   \
        hold_collections(&hold);                            \
        return allow_collections(&hold, next(__VA_ARGS__)); \
    } while (0)

#endif
