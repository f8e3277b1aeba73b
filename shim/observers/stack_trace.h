/* SPDX-License-Identifier: MIT
 *
 * callers.h: who called malloc, all the way up, and in which files that code lies.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_CALLERS_H
#define ALLOTROPE_SHIM_OBSERVERS_CALLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CALLERS_MOST = 64 };

/* Loads libgcc's unwinder where the program has none yet, which allocates: Debian's programs keep
 * no frame pointers. Until then, and in static programs, nobody knows more than the nearest
 * caller. Once, before main. */
void callers_prepare(void);
bool callers_are_known(void);

/* The stack above our own functions, innermost first: `frame`, as of observer_frame(), then whoever
 * called that. most: 1 to CALLERS_MOST, the room in `frames`. places, unless NULL: as of unwind();
 * *places is 0 where they are not known. Returns how many, at least 1. Any thread, signal handlers
 * too; no allocation. */
uint32_t callers_of(const uintptr_t *frame, const void **frames, uint32_t *places, uint32_t most);

/* The text of /proc/self/maps. What cannot be opened reads as empty. */
long maps_open(void);
size_t maps_read(long maps, char *to, size_t room); /* less than the room: that was the end */
void maps_close(long maps);

#endif
