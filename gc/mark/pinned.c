/* SPDX-License-Identifier: MIT
 *
 * pinned.c: pinned blocks are roots, and numbers in them may be distances to other blocks.
 */
#include "alloc/blocks/blocks.h"
#include "gc/mark/drain.h"
#include "gc/mark/mark.h"
#include "gc/mark/referent.h"
#include "vm/kernel/resident.h"
#include "vm/pages.h"

/* Whether a live block begins at the address. */
static bool is_block_start(uintptr_t address)
{
    struct referent referent;
    return may_point_to_block(&mark.bounds, address) && find_referent(address, &referent) &&
           (uintptr_t)referent.start == address && is_live(&referent);
}

/* A block's start is a multiple of 16, which leaves most numbers out at once. */
static inline void mark_at_distance(struct marker *marker, uintptr_t from, uintptr_t distance)
{
    uintptr_t address = from + distance;
    if (address % VECTOR_BYTES == 0 && distance != 0 && is_block_start(address)) {
        *marker->top = address;
        pushed_roots(marker, 1);
    }
}

static void mark_distances(struct marker *marker, uintptr_t block, uintptr_t start, uintptr_t end)
{
    for (uintptr_t at = start; at + sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
        uintptr_t distance = *(const uintptr_t *)at;
        if (distance + mark.bounds.span < 2 * mark.bounds.span) {
            mark_at_distance(marker, block, distance);
            mark_at_distance(marker, at, distance);
        }
    }
}

static void mark_resident_distances(void *block, uintptr_t start, uintptr_t end, bool readable)
{
    (void)readable;
    mark_distances(&mark.markers[0], *(const uintptr_t *)block, start, end);
}

static void mark_pinned_block(struct marker *marker, uintptr_t block, size_t bytes)
{
    *marker->top = block;
    pushed_roots(marker, 1);
    if (!mark_reads_in_place(bytes))
        return; /* it may have pages without the right to be read, or none */
    if (bytes < LARGE_BYTES ||
        !resident_each(block, block + bytes, mark_resident_distances, &block))
        mark_distances(marker, block, block, block + bytes);
}

static void mark_pinned_of_slab(void *count, struct slab *slab)
{
    for (size_t i = 0; slab_has_pins(slab) && i < slab_words(slab); i++) {
        uint64_t pinned = *slab_pinned(slab, i) & slab_live(slab, i) & ~slab->words[i].retired;
        *(uint64_t *)count += count_bits(pinned);
        for (; pinned; pinned &= pinned - 1) {
            size_t index = i * SLAB_WORD_BLOCKS + (size_t)__builtin_ctzl(pinned);
            mark_pinned_block(&mark.markers[0], (uintptr_t)slab_block(slab, index),
                              slab->block_bytes);
        }
    }
}

uint64_t mark_pinned(void)
{
    uint64_t count = 0;
    if (mark.is_minor)
        blocks_each_young(mark_pinned_of_slab, &count);
    else
        blocks_each_slab(mark_pinned_of_slab, &count);
    return count;
}
