/* SPDX-License-Identifier: MIT
 *
 * lookup.c: from an address of the program to its slab and block, and what is said when it is no
 * block's. The granule map (vm/granule_map.h) tells the slab, a multiplication the index in it.
 */
#include "alloc/blocks/lookup.h"

#include "vm/message.h"

void report_not_live(const char *function, const void *block)
{
    abort_on_pointer_fault(function, block,
                           "not a live block (freed twice, or points into one, or handed out twice "
                           "because a signal handler called malloc)");
}

void report_stranger(const char *function, const void *block)
{
    report_pointer_fault(function, block, "not a block of this heap; ignored");
}

struct slab *blocks_slab_of(const void *address)
{
    return slab_at(address);
}

size_t blocks_usable_size(const void *block)
{
    const struct slab *slab = slab_at(block);
    if (!slab)
        return 0;
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    return exact && index < slab->capacity && block_is_live(slab, index) ? slab->block_bytes : 0;
}

bool blocks_owns(const void *address)
{
    return granule_map_get(address) != NULL;
}
