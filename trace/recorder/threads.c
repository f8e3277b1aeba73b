/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * threads.c: see threads.h.
 */
#include "trace/recorder/threads.h"

#include "pub_tool_libcassert.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"

#include "trace/recorder/descriptions.h"
#include "trace/recorder/ring.h"

static ThreadId running_thread = VG_INVALID_THREADID;
static Bool interrupted; /* a fault has ended the stay in client code */

/* Says that what follows is this thread's. */
static void switch_to(ThreadId thread)
{
    if (thread == running_thread)
        return;
    ring_settle();
    ring_event2(RAW_THREAD, thread, 0);
    running_thread = thread;
}

static void client_code_begins(ThreadId thread, ULong blocks)
{
    switch_to(thread);
    ring_enter_client(thread);
}

static void client_code_ends(ThreadId thread, ULong blocks)
{
    ring_leave_client(thread, interrupted);
    interrupted = False;
}

static void thread_starts(ThreadId creator, ThreadId thread)
{
    ring_settle();
    ring_event2(RAW_THREAD_START, thread, creator);
}

static void thread_ends(ThreadId thread)
{
    ring_settle();
    ring_event2(RAW_THREAD_END, thread, 0);
}

/* The header that was written last, if any was since client code was entered. */
static ULong *last_header(void)
{
    ULong *last = NULL, *word, *end;
    for (ring_written_in_client(&word, &end); word < end;) {
        tl_assert((*word & ~RAW_HEADER_MASK) == RAW_HEADER);
        last = word;
        word += 1 + descriptions_find(*word & RAW_HEADER_MASK)->words;
    }
    return last;
}

/* A fault leaves its superblock in the middle: says how many instructions were completed. Where the
 * header names an exit already, that exit was reached and not taken: it is the superblock's own
 * again. */
static void record_interruption(ThreadId thread)
{
    ULong *header = last_header();
    interrupted = True;
    if (!header)
        return;
    UWord number = *header & RAW_HEADER_MASK;
    const struct superblock *block = descriptions_find(number);
    UInt done = superblock_instruction(block, number, VG_(get_IP)(thread));
    *header = RAW_HEADER | block->id;
    ring_event2(RAW_INTERRUPTED, done, 0);
}

/* Valgrind delivers faults from inside client code, all other signals from outside. A signal that
 * ends a system call finds that another thread has run last. */
static void signal_begins(ThreadId thread, Int signal, Bool alternate_stack)
{
    ring_take_cursor(thread);
    if (ring_inside_client())
        record_interruption(thread);
    switch_to(thread);
    ring_settle();
    ULong *payload = ring_begin_event(RAW_SIGNAL, 3);
    payload[0] = thread;
    payload[1] = signal;
    payload[2] = VG_(get_SP)(thread);
    ring_end_event(3);
    ring_give_cursor(thread);
}

static void signal_ends(ThreadId thread, Int signal)
{
    ring_settle();
    ring_event2(RAW_SIGNAL_RETURN, thread, 0);
}

void threads_finish(void)
{
    ring_take_cursor(running_thread);
    if (ring_inside_client())
        record_interruption(running_thread);
}

void threads_begin_child(ThreadId thread)
{
    running_thread = VG_INVALID_THREADID;
    interrupted = False;
    ring_event2(RAW_THREAD_START, thread, 0);
}

void threads_track(void)
{
    VG_(track_start_client_code)(client_code_begins);
    VG_(track_stop_client_code)(client_code_ends);
    VG_(track_pre_thread_ll_create)(thread_starts);
    VG_(track_pre_thread_ll_exit)(thread_ends);
    VG_(track_pre_deliver_signal)(signal_begins);
    VG_(track_post_deliver_signal)(signal_ends);
}
