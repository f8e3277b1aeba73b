/* SPDX-License-Identifier: MIT
 *
 * handled.h: whether a handler of the program's has run since a system call; see handled.c.
 */
#ifndef ALLOTROPE_GC_WORLD_HANDLED_H
#define ALLOTROPE_GC_WORLD_HANDLED_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* Where the program's handlers return to, once the shim has installed them so: those without
 * SA_RESTART, which end a wait, and those with it. */
void restore_from_ending(void);
void restore_from_restarting(void);

/* Whether a handler that returns there ends the wait in which it has run. */
bool ends_waits(void (*restorer)(void));

/* What they do there: a handler has returned, to these registers. */
void note_handled(ucontext_t *context, bool restarts);

/* Whether a handler has run since the system call that these registers come from. False also where
 * the handler returned by another restorer. */
bool was_handled(const greg_t *registers);

/* Who has set registers back to a system call instruction, so that the call begins again. This
 * looks at registers only. The caller must look whether such an instruction stands there. */
enum set_back {
    NOT_SET_BACK,
    SET_BACK_BY_STOP,   /* any handler ends the call */
    SET_BACK_BY_KERNEL, /* for a stop, or for a handler with SA_RESTART */
    SET_BACK_FOR_STOP,  /* by the kernel; a handler without SA_RESTART ends the call */
};
enum set_back set_back(const greg_t *registers);

/* Notes in registers that were set back that a handler which runs before the call begins again is
 * to end it. as: SET_BACK_BY_STOP or SET_BACK_FOR_STOP. */
void mark_set_back(greg_t *registers, enum set_back as);

/* Makes registers that were set back those of the call's end, with EINTR, by a handler. */
void end_call(greg_t *registers);

/* A stop has ended a wait of the calling thread, or cut a transfer of it short. */
void note_ended_wait(void);

/* As struct allocator has ended_waits. */
uint32_t last_ended_wait(void);

#endif
