/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * mappings.h: the program's mappings: what each is, and where break and stack have room.
 */
#ifndef ALLOTROPE_TRACE_RECORDER_MAPPINGS_H
#define ALLOTROPE_TRACE_RECORDER_MAPPINGS_H

/* Asks Valgrind to tell. */
void mappings_track(void);

/* Valgrind gives the break 8 MB and lets the stack grow by faults. Natively a heap in the
 * break can grow as long as there is room: it gets a range of its own here. The stack is made
 * its full size, which costs nothing until it is used. */
void mappings_prepare(void);

/* Tells what is mapped already, for a trace that begins in the middle of a program. */
void mappings_restate(void);

#endif
