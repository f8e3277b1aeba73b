/* SPDX-License-Identifier: MIT
 *
 * stopwatch.h: how long a tick of the processor's time-stamp counter takes. Times are noted in
 * ticks, and told in nanoseconds at the end.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_STOPWATCH_H
#define ALLOTROPE_SHIM_OBSERVERS_STOPWATCH_H

#include <stdint.h>

#include "vm/clock.h"
#include "vm/pages.h"

struct stopwatch {
    uint64_t ticks, nanoseconds; /* at its start */
};

static inline struct stopwatch stopwatch_start(void)
{
    return (struct stopwatch){__builtin_ia32_rdtsc(), monotonic_ns()};
}

/* By what has passed since the start. A sandbox may end the process for a look at the clock: there
 * the coarse one is read, without a system call. 1 where no time has passed by it. */
static inline double stopwatch_ns_per_tick(const struct stopwatch *start)
{
    uint64_t ticks = __builtin_ia32_rdtsc() - start->ticks;
    uint64_t now = pages_are_in_sandbox() ? coarse_ns() : monotonic_ns();
    if (ticks == 0 || now <= start->nanoseconds)
        return 1;
    return (double)(now - start->nanoseconds) / (double)ticks;
}

#endif
