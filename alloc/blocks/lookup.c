/* SPDX-License-Identifier: MIT
 *
 * lookup.c: from an address of the program to its slab and block, and what is said when it is no
 * block's. The granule map (vm/granule_map.h) tells the slab, a multiplication the index in it.
 */
#include "alloc/blocks/lookup.h"

#include "vm/message.h"

#define REMEDY "leaks=keep keeps such blocks, `allotrope verify-gc -- COMMAND` finds them"

/* Nobody remembers which blocks a collection has reclaimed: that would take a bit for each block,
 * which malloc would have to clear. */
static bool may_be_reclaimed(void)
{
    const struct blocks_collector *collector = blocks_heap.collector;
    return collector && collector->has_reclaimed && collector->has_reclaimed();
}

void report_not_live(const char *function, const void *block)
{
    abort_on_pointer_fault(
        function, block,
        may_be_reclaimed()
            ? "not a live block (freed twice, or points into one, or the program hides pointers "
              "and the collector has reclaimed the block: " REMEDY ")"
            : "not a live block (freed twice, or points into one, or handed out twice because a "
              "signal handler called malloc)");
}

void report_stranger(const char *function, const void *block)
{
    report_pointer_fault(
        function, block,
        may_be_reclaimed()
            ? "not a block of this heap; ignored. If it was one, "
              "the program hides pointers and the collector has reclaimed it: " REMEDY
            : "not a block of this heap; ignored");
}

/* The suspect that begins at an address. NULL: none does. */
static struct slab *slab_of_suspect(const void *block, size_t *index)
{
    struct slab *slab = slab_at(block);
    if (!slab || !slab_find(slab, block, index) || !block_is_suspect(slab, *index))
        return NULL;
    return slab_live(slab, *index / SLAB_WORD_BLOCKS) & slab_bit(*index) ? slab : NULL;
}

void expect_suspect(const char *function, const void *block)
{
    size_t index;
    const struct slab *slab = slab_of_suspect(block, &index);
    if (!slab)
        report_not_live(function, block);
    if (blocks_heap.collector && blocks_heap.collector->suspect_used)
        blocks_heap.collector->suspect_used(block, slab->block_bytes, function);
}

struct slab *blocks_slab_of(const void *address)
{
    return slab_at(address);
}

size_t blocks_usable_size(const void *block)
{
    struct slab *slab = slab_at(block);
    if (!slab)
        return 0;
    size_t index;
    return find_live(slab, block, &index) || slab_of_suspect(block, &index) ? slab->block_bytes : 0;
}

bool blocks_owns(const void *address)
{
    return granule_map_get(address) != NULL;
}
