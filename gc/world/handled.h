/* SPDX-License-Identifier: MIT
 *
 * handled.h: whether a handler of the program's has run since a system call; see handled.c.
 */
#ifndef ALLOTROPE_GC_WORLD_HANDLED_H
#define ALLOTROPE_GC_WORLD_HANDLED_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* Where the program's handlers return to, once the shim has installed them so. */
void restore_from_program(void);

/* What it does there: a handler has returned, to these registers. */
void note_handled(ucontext_t *context);

/* Whether a handler has run between the system call that these registers come from and now. False
 * where it returned elsewhere. */
bool was_handled(const greg_t *registers);

/* A stop has set these registers back to the system call instruction: a handler that runs before
 * the call begins again will end it. */
void mark_set_back(greg_t *registers);

/* A stop has ended a wait of the calling thread, or cut a transfer of it short. */
void note_ended_wait(void);

/* As struct allocator has ended_waits. */
uint32_t last_ended_wait(void);

#endif
