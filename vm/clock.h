/* SPDX-License-Identifier: MIT
 *
 * clock.h: time, without libc.
 */
#ifndef ALLOTROPE_VM_CLOCK_H
#define ALLOTROPE_VM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "vm/syscall.h"

static inline uint64_t timespec_ns(struct timespec time)
{
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* 0 where the kernel refuses the clock. */
static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec time = {0};
    SYSCALL_2(SYS_clock_gettime, clock, &time);
    return timespec_ns(time);
}

/* Whether the clock goes on while the threads that it may count stand still. */
static inline bool runs_while_stopped(clockid_t clock)
{
    return clock >= 0 && clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID;
}

/* Nanoseconds of a clock that only goes forward. Any thread, any state. */
static inline uint64_t monotonic_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* Nanoseconds that the process's threads have run. Any thread, any state. */
static inline uint64_t process_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* Nanoseconds of a clock that only goes forward, some milliseconds behind. Takes no system call.
 * Always 0 where the kernel offers no such clock (Valgrind). Any thread, any state. */
uint64_t coarse_ns(void);

#endif
