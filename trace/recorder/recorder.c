/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * recorder.c: the Valgrind tool that records every data reference of a program.
 *
 * Each superblock that Valgrind translates gets a number and a description; the code added to
 * it stores the number and then, before an access, the address, straight into the ring
 * (protocol/reference_ring.h). Sizes, kinds and instruction counts never change and stand in the
 * description. So does the distance of an address from one that is known without being stored: a
 * constant, the stack pointer at the superblock's start, or an address that was stored before. That
 * is so of three references in five, which therefore cost the program nothing.
 *
 *   at its start    if (cursor >= limit) publish();
 *                   base = cursor;  cursor += 1 + told slots;  *base = HEADER | id
 *   a reference     base[k] = address                (k is known at translation), or nothing
 *
 * A superblock takes its full room in the ring, also when it is left early: what was not
 * executed is garbage there. By which exit it was left follows from where the next superblock
 * begins. Where that could be misread (two exits with one target, a computed jump), the
 * header is overwritten before the exit by a number that stands for this exit.
 *
 * A superblock may also be interrupted by a fault: the signal's delivery then adds how many
 * instructions were completed. Stack growth, which interrupts unseen, is avoided by making the
 * main stack its full size at the start; see mappings_prepare().
 *
 * Valgrind runs one thread at a time. So the ring has one writer, and its order is that in which
 * the process executed. RAW_THREAD tells whose turn begins.
 *
 *     instrument.c      the code that is added      threads.c     which thread runs, signals
 *     descriptions.c    what was translated         mappings.c    what is mapped
 *     doorbells.c       what libraries tell         ring.c        the ring's writing end
 *     options.c                                     consumer.c    the ring's other end
 *                                                   handlers.c    faults that the program handles
 */
#include "pub_tool_basics.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vkiscnums.h"

#include "trace/recorder/consumer.h"
#include "trace/recorder/coregrind.h"
#include "trace/recorder/descriptions.h"
#include "trace/recorder/doorbells.h"
#include "trace/recorder/handlers.h"
#include "trace/recorder/instrument.h"
#include "trace/recorder/mappings.h"
#include "trace/recorder/options.h"
#include "trace/recorder/ring.h"
#include "trace/recorder/threads.h"

/* A child that is followed begins a trace of its own, in which everything is described anew: so
 * everything is translated anew. */
static void child_after_fork(ThreadId thread)
{
    if (ring_to_nothing())
        return;
    ring_forget_socket();
    if (!options.follow) {
        ring_record_to_nothing();
        return;
    }
    consumer_start(ring_address());
    descriptions_begin();
    VG_(discard_translations)(0x1000, 0x7ffffffff000, "fork");
    threads_begin_child(thread);
    mappings_restate();
}

static void parent_after_fork(ThreadId thread)
{
    ring_count_child();
}

static void after_options(void)
{
    descriptions_begin();
    consumer_map_ring();
    if (options.socket_fd >= 0)
        ring_watch_socket(options.socket_fd);
    VG_(atfork)(NULL, parent_after_fork, child_after_fork);
    mappings_prepare();
}

static void finish(Int exit_status)
{
    if (ring_to_nothing())
        return;
    threads_finish();
    ring_finish();
}

/* An exec ends the recorder with the program, unless it fails. */
static void before_syscall(ThreadId thread, UInt number, UWord *arguments, UInt count)
{
    if (number == __NR_execve || number == __NR_execveat)
        ring_set_end(REFERENCE_RING_EXEC);
}

static void after_syscall(ThreadId thread, UInt number, UWord *arguments, UInt count, SysRes result)
{
    if (number == __NR_execve || number == __NR_execveat)
        ring_set_end(REFERENCE_RING_OPEN);
    if (!sr_isError(result))
        handlers_after_syscall(number, arguments);
}

static void before_options(void)
{
    VG_(details_name)("allotrope");
    VG_(details_version)("0.1");
    VG_(details_description)("records every data reference");
    VG_(details_copyright_author)("GNU GPL 2 or later");
    VG_(details_bug_reports_to)("the allotrope project");
    VG_(details_avg_translation_sizeB)(300);
    VG_(basic_tool_funcs)(after_options, instrument, finish);
    options_register();
    VG_(needs_client_requests)(doorbells_request);
    VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
    threads_track();
    mappings_track();
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
