/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * descriptions.c: see descriptions.h.
 */
#include "trace/recorder/descriptions.h"

#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_wordfm.h"
#include "pub_tool_xarray.h"

#include "trace/recorder/ring.h"

/* Superblocks by header number. A superblock has a number for itself and one for each exit. */
static XArray *superblocks;

static WordFM *functions; /* "object|function" -> id, from 1 */
static UInt function_count;

static Word compare_strings(UWord first, UWord second)
{
    return VG_(strcmp)((const HChar *)first, (const HChar *)second);
}

UInt descriptions_function(Addr address)
{
    const HChar *name = "?", *object = "?";
    DiEpoch now = VG_(current_DiEpoch)();
    if (!VG_(get_objname)(now, address, &object))
        object = "?";
    object = VG_(strdup)("allotrope.object", object);
    if (!VG_(get_fnname)(now, address, &name))
        name = "?";
    SizeT length = VG_(strlen)(object) + VG_(strlen)(name) + 2;
    HChar *key = VG_(malloc)("allotrope.function", length);
    VG_(sprintf)(key, "%s|%s", object, name);
    UWord known = 0;
    if (VG_(lookupFM)(functions, NULL, &known, (UWord)key)) {
        VG_(free)(key);
    } else {
        known = ++function_count;
        VG_(addToFM)(functions, (UWord)key, known);
        ULong *payload = ring_begin_event(RAW_FUNCTION, 0);
        payload[0] = known;
        UInt words = 1 + ring_put_string(payload + 1, name, object);
        ring_tag_event(payload, RAW_FUNCTION, words);
        ring_end_event(words);
    }
    VG_(free)((void *)object);
    return known;
}

void descriptions_begin(void)
{
    superblocks =
        VG_(newXA)(VG_(malloc), "allotrope.superblocks", VG_(free), sizeof(struct superblock *));
    functions = VG_(newFM)(VG_(malloc), "allotrope.functions", VG_(free), compare_strings);
    function_count = 0;
}

UInt descriptions_next_id(void)
{
    return VG_(sizeXA)(superblocks);
}

/* A copy that is never freed. */
static const void *kept_copy(const void *data, SizeT bytes)
{
    return VG_(memcpy)(VG_(perm_malloc)(bytes, 8), data, bytes);
}

void descriptions_add(UInt words, const Addr *instructions, UInt count, const UShort *exits,
                      UInt exit_count)
{
    struct superblock *kept = VG_(perm_malloc)(sizeof *kept, 8);
    kept->id = descriptions_next_id();
    kept->words = words;
    kept->instruction_count = count;
    kept->instructions = kept_copy(instructions, count * sizeof *instructions);
    kept->exits = kept_copy(exits, exit_count * sizeof *exits);
    for (UInt i = 0; i <= exit_count; i++)
        VG_(addToXA)(superblocks, &kept);
}

const struct superblock *descriptions_find(UWord header)
{
    tl_assert(header < VG_(sizeXA)(superblocks));
    return *(const struct superblock **)VG_(indexXA)(superblocks, header);
}

UInt superblock_instruction(const struct superblock *superblock, UWord header, Addr address)
{
    UInt exit = header - superblock->id; /* 0, or 1 + the exit that was reached last */
    UInt i = exit > 0 && superblock->exits[exit - 1] > 0 ? superblock->exits[exit - 1] - 1 : 0;
    while (i < superblock->instruction_count && superblock->instructions[i] != address)
        i++;
    return i;
}
