/* SPDX-License-Identifier: MIT
 *
 * observer.h: observers, which watch the calls between the program and the allocator on request.
 *
 * An observer is a route that wraps another: functions of the same signatures, which note a call
 * and pass it on to the route behind them (`inner`). An environment variable asks for it, when the
 * route is resolved. An observer that was not asked for is not in the route, so it costs nothing.
 * Several may be on at once: the first in observers.c stands nearest to the allocator.
 *
 *   program -> malloc -> route -> [observer] -> [observer] -> allocator
 *
 * To make one: a file with
 *
 *     static struct route inner;
 *
 *     static void *observed_alloc(size_t size)
 *     {
 *         void *block = inner.alloc(size);
 *         note(block, size, observer_site());
 *         return block;
 *     }
 *     ... the same for alloc_zeroed, alloc_aligned, free, resize; usable_size and owns are
 *     left as they are, unless the observer must know when the allocator runs (doorbells.c)
 *
 *     static struct route start(const struct configuration *configuration, struct route behind,
 *                               const char *value)
 *     {
 *         struct route observed = inner = behind;
 *         observed.alloc = observed_alloc;
 *         ...
 *         return observed;
 *     }
 *
 *     const struct observer note_observer = {.variable = "ALLOTROPE_NOTE", .start = start, ...};
 *
 * and its name in observers.c. An observer keeps these rules:
 *  - It runs inside malloc, before libc is up, in signal handlers, in the middle of fork: no libc
 *    that allocates or locks (memory from pages_map, files by SYSCALL_n, locks from vm/lock.h
 *    with a rank of their own below RANK_REGISTRY, added to what fork takes by
 *    fork_chain_add and taken by lock_enter, which does not wait during a fork: what is to be
 *    noted then is deferred), and errno stays as it was.
 *  - Blocks: alloc may return NULL. The block of free is not NULL, but may be foreign or freed
 *    already, which the allocator reports. The block of resize is ours and its size is not 0; if
 *    resize returns NULL, the old block is still live.
 *  - Another thread may be handed the block as soon as inner.free() is called. So an observer notes
 *    a free before it calls inner.free().
 *  - Thread-local state is initial-exec (the library is built so) and a pointer or two.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_OBSERVER_H
#define ALLOTROPE_SHIM_ROUTE_OBSERVER_H

#include "shim/reports/output.h"
#include "shim/route/route.h"

struct observer {
    const char *variable; /* of the environment; set, even to "", it asks for this observer */

    /* Whether the allocator asks for the observer, even if the variable is not set; `value` below
     * is NULL then. May be NULL: no allocator asks. */
    bool (*is_needed)(const struct allocator *allocator);

    /* Returns the route through the observer to `inner`. Called once, with the allocator ready
     * and before there is a second thread. A value that cannot be understood ends the process:
     * stop_before_main(). `value` is the program's environment, which it may change: copy it. */
    struct route (*start)(const struct configuration *configuration, struct route inner,
                          const char *value);

    /* Called only when on. All may be NULL. */

    void (*before_main)(void); /* by a constructor of the library: libc is up, and may be called */
    void (*thread_end)(void);  /* of a thread that observer_watch_thread() was called in */
    void (*at_exit)(void);     /* not in a process that ends by _exit, exec or a signal */
};

/* Every observer, NULL-terminated; the first stands nearest to the allocator. */
extern const struct observer *const observers[];

/* Starts those that the environment asks for; returns the route through them. */
struct route observers_start(const struct configuration *configuration, struct route allocator);

/* The route through functions that tell inner.allocator the site of each allocation: callers.c. */
struct route callers_route(struct route inner);

/* As allocator_call_stack has it. Not in the libraries of a single allocator. */
uint32_t callers_call_stack(uintptr_t rip, uintptr_t rsp, uintptr_t rbp, const void **sites,
                            uint32_t most);

/* The value of an observer's variable, where it names the file of a report. One that is too long
 * ends the process; so does one that there is no memory for, and the line says the same. */
struct output_pattern observer_destination(const char *value, const char *variable);

void observers_before_main(void);
void observers_thread_end(void);

/* Has thread_end called when the calling thread ends. Not for the first thread, whose end is the
 * process's. May be called again and again. May allocate: the caller guards itself against its own
 * recursion. */
void observer_watch_thread(void);

/* Where the library's own code lies. Empty in the archive: a static program has our code and its
 * own in one text, so the nearest frame counts as the program's. Tests of a single observer do not
 * define it. */
struct text_range {
    const char *start, *end;
};
extern const struct text_range own_text __attribute__((weak, visibility("hidden")));

/* The frame of our function that the program called, malloc or another of its names: [0] is the
 * program's rbp, [1] the return address, and the program's stack begins at [2]. For functions of a
 * route only. Our functions between here and there keep frame pointers (shim.am). */
static inline __attribute__((always_inline)) const uintptr_t *observer_frame(void)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    if (&own_text)
        while (frame[1] >= (uintptr_t)own_text.start && frame[1] < (uintptr_t)own_text.end)
            frame = (const uintptr_t *)frame[0];
    return frame;
}

/* The allocation site of the call: its return address in the program. For functions of a route
 * only. */
static inline __attribute__((always_inline)) const void *observer_site(void)
{
    return (const void *)observer_frame()[1];
}

#endif
