/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * doorbells.c: see doorbells.h.
 */
#include "trace/recorder/doorbells.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_transtab.h"

#include "trace/protocol/doorbell.h"
#include "trace/recorder/coregrind.h"

enum { MOST_DOORBELLS = 64 };
static Addr doorbell_ranges[MOST_DOORBELLS];
static UInt doorbell_range_count;

/* Instructions that only ring; doorbell_silence() tells them. */
static struct {
    Addr start, end;
} silences[MOST_DOORBELLS];
static UInt silence_count;

Bool doorbells_silent(Addr instruction)
{
    for (UInt i = 0; i < silence_count; i++)
        if (instruction >= silences[i].start && instruction < silences[i].end)
            return True;
    return False;
}

Int doorbells_at(IRExpr *address)
{
    if (doorbell_range_count == 0 || address->tag != Iex_Const)
        return -1;
    Addr where = address->Iex.Const.con->Ico.U64;
    for (UInt i = 0; i < doorbell_range_count; i++)
        if (where - doorbell_ranges[i] < sizeof(struct doorbells))
            return (where - doorbell_ranges[i]) / 8;
    return -1;
}

/* Client requests. */

static void register_doorbells(Addr start, SizeT bytes)
{
    if (bytes != sizeof(struct doorbells)) {
        VG_(umsg)
        ("error: doorbells of %lu bytes; this recorder knows %lu: rebuild the library\n", bytes,
         sizeof(struct doorbells));
        VG_(exit)(1);
    }
    for (UInt i = 0; i < doorbell_range_count; i++)
        if (doorbell_ranges[i] == start)
            return;
    if (doorbell_range_count == MOST_DOORBELLS) {
        VG_(umsg)("error: more than %d libraries register doorbells\n", MOST_DOORBELLS);
        VG_(exit)(1);
    }
    doorbell_ranges[doorbell_range_count++] = start;
    /* Tests of the doorbells translated so far count as references: translate anew. */
    VG_(discard_translations_safely)(0x1000, 0x7ffffffff000, "doorbells");
}

/* What is a library's own ringing is left out from here on. */
static void silence(Addr start, Addr end)
{
    for (UInt i = 0; i < silence_count; i++)
        if (silences[i].start == start)
            return;
    if (start >= end || silence_count == MOST_DOORBELLS) {
        VG_(umsg)("error: instructions %#lx to %#lx cannot be left out\n", start, end);
        VG_(exit)(1);
    }
    silences[silence_count].start = start;
    silences[silence_count++].end = end;
    VG_(discard_translations_safely)(start, end - start, "doorbells");
}

/* What is Valgrind's, gaps between neighbouring ranges not joined. */
static UWord own_ranges(ULong (*pairs)[2], UWord capacity)
{
    enum { MOST = 4096 };
    static Addr starts[MOST];
    Int count = VG_(am_get_segment_starts)(SkAnonV | SkFileV, starts, MOST);
    if (count < 0)
        return -count;
    for (Int i = 0; i < count && i < capacity; i++) {
        const NSegment *segment = VG_(am_find_nsegment)(starts[i]);
        pairs[i][0] = segment->start;
        pairs[i][1] = segment->end + 1;
    }
    return count;
}

static Long open_userfaultfd(UWord flags)
{
    enum { USERFAULTFD = 323 };
    SysRes opened = VG_(do_syscall)(USERFAULTFD, flags, 0, 0, 0, 0, 0, 0, 0);
    return sr_isError(opened) ? -(Long)sr_Err(opened) : (Long)sr_Res(opened);
}

Bool doorbells_request(ThreadId thread, UWord *arguments, UWord *result)
{
    switch (arguments[0]) {
    case DOORBELL_REQUEST_REGISTER:
        register_doorbells(arguments[1], arguments[2]);
        *result = 1;
        return True;
    case DOORBELL_REQUEST_SILENCE:
        silence(arguments[1], arguments[2]);
        *result = 1;
        return True;
    case DOORBELL_REQUEST_RANGES:
        *result = own_ranges((ULong(*)[2])arguments[1], arguments[2]);
        return True;
    case DOORBELL_REQUEST_USERFAULTFD:
        *result = open_userfaultfd(arguments[1]);
        return True;
    default:
        return False;
    }
}
