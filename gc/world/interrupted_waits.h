/* SPDX-License-Identifier: MIT
 *
 * interrupted_waits.h: the system call in which a stop, or an answer to another process, interrupts
 * a thread; see interrupted_waits.c. Called in the handler of the stop's signal, on whatever stack
 * the kernel chose: it takes little of it.
 */
#ifndef ALLOTROPE_GC_WORLD_INTERRUPTED_WAITS_H
#define ALLOTROPE_GC_WORLD_INTERRUPTED_WAITS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <ucontext.h>

/* Once, before the first stop. */
void interrupted_waits_init(void);

/* The time that a wait still takes if it is restarted. The kernel wrote it when the signal came, or
 * it is what the program handed over right before. */
struct time_left {
    struct timespec *time; /* of the program; NULL: there is none */
    int64_t units;         /* of its second field, in a second */
    bool is_sleep;
    bool has_slack; /* the kernel has counted in by how much it may be late */
};

struct interrupted_wait {
    struct time_left left;
    uint64_t begun_ns; /* of the interruption; where time is left */
};

/* As the handler begins. */
struct interrupted_wait interrupt_wait(ucontext_t *context);
/* As it ends: the thread is set so that the program does not notice. */
void continue_wait(const struct interrupted_wait *wait, ucontext_t *context);

/* Whether the thread is in a system call, or about to make one. */
bool is_in_call(const ucontext_t *context);

#endif
