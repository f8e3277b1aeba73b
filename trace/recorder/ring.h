/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * ring.h: the ring's writing end (protocol/reference_ring.h).
 *
 * While client code runs, cursor and limit live in the thread's shadow registers, where
 * translations write them; outside it they are here.
 *
 * To *settle* is to write where the last superblock was left (RAW_RESUME). Where nothing lies
 * between, the next superblock shows it. An event in between would hide that, so whoever writes an
 * event settles first.
 */
#ifndef ALLOTROPE_TRACE_RECORDER_RING_H
#define ALLOTROPE_TRACE_RECORDER_RING_H

#include "pub_tool_basics.h"

#include "libvex_guest_offsets.h"

#include "trace/protocol/reference_ring.h"

/* The cursor's and limit's places in the first set of shadow registers: rax, rcx. */
enum { RING_CURSOR_OFFSET = OFFSET_amd64_RAX, RING_LIMIT_OFFSET = OFFSET_amd64_RCX };

/* A superblock of more slots looks for room at its start. */
enum { RING_SMALL_SUPERBLOCK = 32 };

/* Called by translations when the buffer is full. */
void ring_publish_inside_client(void);

/* Room for an event of so many payload words; returns where the payload goes. */
ULong *ring_begin_event(UInt type, UInt words);
void ring_end_event(UInt words);
/* An event whose length is known only after its payload, at `payload`, is written. */
void ring_tag_event(ULong *payload, UInt type, UInt words);
/* An event of two words. */
void ring_event2(UInt type, ULong first, ULong second);
/* Appends two strings, cut to what an event may hold, and returns the words they took. */
UInt ring_put_string(ULong *payload, const HChar *first, const HChar *second);
/* Says where the superblock executed last was left, if that has not been said. */
void ring_settle(void);

/* settled: the stream knows already how the superblock executed last was left. */
void ring_enter_client(ThreadId thread);
void ring_leave_client(ThreadId thread, Bool settled);
Bool ring_inside_client(void);
/* The words that translations have written since client code was entered. */
void ring_written_in_client(ULong **first, ULong **end);
/* Inside client code: between these two the cursor is here, not in the thread's registers. */
void ring_take_cursor(ThreadId thread);
void ring_give_cursor(ThreadId thread);

/* Begins to write to a ring, as the process `pid`. */
void ring_begin(struct reference_ring *mapped, Int pid);
/* No consumer: the first buffer of this memory, of REFERENCE_RING_BYTES, is written over and over.
 */
void ring_begin_nothing(void *memory);
/* From here on nothing is recorded: the ring's pages are replaced by private ones, since
 * translations keep writing there. */
void ring_record_to_nothing(void);
Bool ring_to_nothing(void);
Addr ring_address(void);

/* The program has made a process. */
void ring_count_child(void);

/* The consumer's socket, whose hang-up ends the program. */
Int ring_watch_socket(Int socket); /* Returns the descriptor that it is from now on. */
void ring_forget_socket(void);

/* enum reference_ring_end; ring_finish() publishes what is left and says FINISHED. */
void ring_set_end(UInt end);
void ring_finish(void);

#endif
