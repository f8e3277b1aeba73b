/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * descriptions.h: what was translated: superblocks and functions, and their numbers in the stream.
 */
#ifndef ALLOTROPE_TRACE_RECORDER_DESCRIPTIONS_H
#define ALLOTROPE_TRACE_RECORDER_DESCRIPTIONS_H

#include "pub_tool_basics.h"

/* Needed when a fault interrupts the superblock: which instructions it has, and its exits. */
struct superblock {
    UInt id;
    UInt words; /* that it takes in the ring, behind its header */
    UInt instruction_count;
    const Addr *instructions;
    const UShort *exits; /* for each, the instructions up to and including its own */
};

/* Forgets what was described: everything is described anew. */
void descriptions_begin(void);

/* The number of the function that an address lies in; it is described in the stream when it is
 * met first. */
UInt descriptions_function(Addr address);

/* The number of the next header. A superblock has one for itself and one for each exit. */
UInt descriptions_next_id(void);
/* Keeps a superblock under the next numbers: its own, and one for each exit. Copies both arrays. */
void descriptions_add(UInt words, const Addr *instructions, UInt count, const UShort *exits,
                      UInt exit_count);
const struct superblock *descriptions_find(UWord header);
/* The superblock's first instruction that can be at an address once its header says `header`;
 * instruction_count when there is none. */
UInt superblock_instruction(const struct superblock *superblock, UWord header, Addr address);

#endif
