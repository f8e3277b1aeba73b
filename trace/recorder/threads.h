/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * threads.h: which thread runs, and what interrupts it. Valgrind runs one thread at a time.
 */
#ifndef ALLOTROPE_TRACE_RECORDER_THREADS_H
#define ALLOTROPE_TRACE_RECORDER_THREADS_H

#include "pub_tool_basics.h"

/* Asks Valgrind to tell. */
void threads_track(void);
/* Ends the stream's last stay in client code. */
void threads_finish(void);
/* In the child of a fork, which begins a stream of its own. */
void threads_begin_child(ThreadId thread);

#endif
