/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * instrument.h: the code that is added to each superblock.
 */
#ifndef ALLOTROPE_TRACE_RECORDER_INSTRUMENT_H
#define ALLOTROPE_TRACE_RECORDER_INSTRUMENT_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* As VG_(basic_tool_funcs) wants it. */
IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                 const VexGuestExtents *extents, const VexArchInfo *machine, IRType guest_word,
                 IRType host_word);

#endif
