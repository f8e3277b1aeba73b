/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * coregrind.h: what is in the packaged libcoregrind, but not in its public headers.
 */
#ifndef ALLOTROPE_TRACE_RECORDER_COREGRIND_H
#define ALLOTROPE_TRACE_RECORDER_COREGRIND_H

#include "pub_tool_aspacehl.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_basics.h"
#include "pub_tool_vki.h"

#include "libvex.h"

extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd,
                                                      Off64T offset);
extern SysRes VG_(am_do_mmap_NO_NOTIFY)(Addr start, SizeT length, UInt prot, UInt flags, Int fd,
                                        Off64T offset);
extern SysRes VG_(am_mmap_anon_float_valgrind)(SizeT length);
extern SysRes VG_(am_mmap_anon_fixed_client)(Addr start, SizeT length, UInt prot);
extern Bool VG_(am_create_reservation)(Addr start, SizeT length, ShrinkMode smode, SSizeT extra);
extern Bool VG_(extend_stack)(ThreadId tid, Addr addr);
extern SysRes VG_(do_syscall)(UWord number, RegWord a1, RegWord a2, RegWord a3, RegWord a4,
                              RegWord a5, RegWord a6, RegWord a7, RegWord a8);
extern Int VG_(safe_fd)(Int fd);
extern void VG_(discard_translations)(Addr start, ULong bytes, const HChar *who);
extern Addr VG_(brk_base);
extern Addr VG_(brk_limit);
extern Addr VG_(clstk_start_base);
extern Addr VG_(clstk_end);
/* A variable of the translator, which reads it at every translation. */
extern VexControl vex_control;

#endif
