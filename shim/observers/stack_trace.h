/* SPDX-License-Identifier: MIT
 *
 * stack_trace.h: the return addresses above a call of malloc, which tell its allocation site.
 *
 * Debian's programs keep no frame pointers, so a walk up the stack needs the tables for exceptions:
 * by unwind.h where it can, by libgcc's unwinder otherwise.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_STACK_TRACE_H
#define ALLOTROPE_SHIM_OBSERVERS_STACK_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_FRAMES = 64 };

/* Loads libgcc's unwinder where the program has none yet, which allocates. Once, before main. */
void stack_trace_prepare(void);

/* Whether a trace goes beyond its first frame. Not before stack_trace_prepare(), and not in a
 * static program. */
bool stack_trace_is_deep(void);

/* Fills `frames` with the return addresses above our own functions, innermost first: the first is
 * that of `frame`, as of observer_frame(). most: 1 to MOST_FRAMES, the room in `frames`. offsets,
 * unless NULL: as of unwind(); *offsets is 0 when they are not known. Returns how many, at least 1.
 * Any thread, signal handlers too; no allocation. */
uint32_t stack_trace(const uintptr_t *frame, const void **frames, uint32_t *offsets, uint32_t most);

#endif
