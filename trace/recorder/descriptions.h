/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * descriptions.h: what was translated: superblocks and functions, and their numbers in the stream.
 */
#ifndef ALLOTROPE_TRACE_RECORDER_DESCRIPTIONS_H
#define ALLOTROPE_TRACE_RECORDER_DESCRIPTIONS_H

#include "pub_tool_basics.h"

/* Needed when a fault interrupts the superblock: which instructions it has. */
struct superblock {
    UInt slots;
    UInt instruction_count;
    Addr instructions[];
};

/* Forgets what was described: everything is described anew. */
void descriptions_begin(void);

/* The number of the function that an address lies in; it is described in the stream when it is
 * met first. */
UInt descriptions_function(Addr address);

/* The number of the next header. A superblock has one for itself and one for each exit. */
UInt descriptions_next_id(void);
/* Keeps a superblock under the next `headers` numbers. */
void descriptions_add(UInt headers, UInt slots, const Addr *instructions, UInt count);
const struct superblock *descriptions_find(UWord id);

#endif
