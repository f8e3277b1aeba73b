/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * mappings.c: see mappings.h.
 */
#include "trace/recorder/mappings.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_tooliface.h"

#include "trace/format/format.h"
#include "trace/recorder/coregrind.h"
#include "trace/recorder/options.h"
#include "trace/recorder/ring.h"

static void mapping_appears(Addr start, SizeT bytes, UInt kind)
{
    if (bytes == 0)
        return;
    const NSegment *segment = VG_(am_find_nsegment)(start);
    const HChar *name = segment ? VG_(am_get_filename)(segment) : NULL;
    if (kind == TRACE_REGION_ANONYMOUS && name)
        kind = TRACE_REGION_FILE;
    ring_settle();
    ULong *payload = ring_begin_event(RAW_MAP, 0);
    payload[0] = start;
    payload[1] = bytes;
    payload[2] = kind;
    UInt words = 3 + ring_put_string(payload + 3, name ? name : "", "");
    ring_tag_event(payload, RAW_MAP, words);
    ring_end_event(words);
}

static void mapping_goes(Addr start, SizeT bytes)
{
    if (bytes == 0)
        return;
    ring_settle();
    ring_event2(RAW_UNMAP, start, bytes);
}

/* Static data is what can be written of a file that is mapped to be executed, and the memory for
 * zeros right behind it: ld.so maps a library's whole extent at first and then, over it, its parts.
 * The program itself is mapped before anything else could lie there. */
static Bool is_static_data(Addr start, SizeT bytes, Bool w, Bool x, Bool at_start)
{
    static const HChar *object, *text;
    static Addr object_end, data_end;
    const NSegment *segment = VG_(am_find_nsegment)(start);
    const HChar *name = segment ? VG_(am_get_filename)(segment) : NULL;
    Addr end = start + bytes;
    if (name && name != object) {
        object = name;
        object_end = end;
    }
    if (x && name)
        text = name;
    Bool is_data =
        w && text && text == object &&
        (name == text || (!name && start == data_end && (at_start || end <= object_end)));
    if (is_data)
        data_end = end;
    return is_data;
}

static void mapped_at_runtime(Addr start, SizeT bytes, Bool r, Bool w, Bool x, ULong handle)
{
    Bool is_data = is_static_data(start, bytes, w, x, False);
    mapping_appears(start, bytes, is_data ? TRACE_REGION_DATA : TRACE_REGION_ANONYMOUS);
}

static void mapped_at_startup(Addr start, SizeT bytes, Bool r, Bool w, Bool x, ULong handle)
{
    if (start + bytes - 1 == VG_(clstk_end))
        return; /* told in full by mappings_prepare() */
    Bool is_data = is_static_data(start, bytes, w, x, True);
    mapping_appears(start, bytes, is_data ? TRACE_REGION_DATA : TRACE_REGION_ANONYMOUS);
}

static void break_grows(Addr start, SizeT bytes, ThreadId thread)
{
    mapping_appears(start, bytes, TRACE_REGION_BREAK);
}

static void mapping_moves(Addr from, Addr to, SizeT bytes)
{
    mapping_goes(from, bytes);
    mapping_appears(to, bytes, TRACE_REGION_ANONYMOUS);
}

void mappings_prepare(void)
{
    const Addr break_start = 0x800000000; /* 32 GB: beyond programs, below Valgrind */
    const SizeT break_room = 0x400000000;
    if (options.native_layout &&
        !sr_isError(VG_(am_mmap_anon_fixed_client)(break_start, VKI_PAGE_SIZE,
                                                   VKI_PROT_READ | VKI_PROT_WRITE)) &&
        VG_(am_create_reservation)(break_start + VKI_PAGE_SIZE, break_room, SmLower, 0)) {
        VG_(brk_base) = VG_(brk_limit) = break_start;
    }
    const NSegment *room = VG_(am_find_nsegment)(VG_(clstk_start_base) - 1);
    Addr lowest = VG_(clstk_start_base);
    if (room && room->kind == SkResvn && room->end - room->start > VKI_PAGE_SIZE) {
        lowest = room->start + VKI_PAGE_SIZE;
        VG_(extend_stack)(1, lowest);
    }
    mapping_appears(lowest, VG_(clstk_end) + 1 - lowest, TRACE_REGION_STACK);
}

void mappings_restate(void)
{
    enum { MOST = 30000 }; /* as many as Valgrind has room for: VG_N_SEGMENTS */
    static Addr starts[MOST];
    Int count = VG_(am_get_segment_starts)(SkFileC | SkAnonC | SkShmC, starts, MOST);
    tl_assert(count >= 0);
    for (Int i = 0; i < count; i++) {
        const NSegment *segment = VG_(am_find_nsegment)(starts[i]);
        UInt kind = TRACE_REGION_ANONYMOUS;
        if (VG_(clstk_end) >= segment->start && VG_(clstk_end) <= segment->end)
            kind = TRACE_REGION_STACK;
        else if (segment->start >= VG_(brk_base) && segment->start < VG_(brk_limit))
            kind = TRACE_REGION_BREAK;
        else if (segment->kind == SkFileC && segment->hasW)
            kind = TRACE_REGION_DATA;
        mapping_appears(segment->start, segment->end + 1 - segment->start, kind);
    }
}

void mappings_track(void)
{
    VG_(track_new_mem_startup)(mapped_at_startup);
    VG_(track_new_mem_mmap)(mapped_at_runtime);
    VG_(track_new_mem_brk)(break_grows);
    VG_(track_copy_mem_remap)(mapping_moves);
    VG_(track_die_mem_munmap)(mapping_goes);
    VG_(track_die_mem_brk)(mapping_goes);
}
