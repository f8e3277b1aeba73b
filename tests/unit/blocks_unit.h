/* SPDX-License-Identifier: MIT
 *
 * blocks_unit.h: what tests of the parts of `blocks` share.
 */
#ifndef ALLOTROPE_TESTS_UNIT_BLOCKS_UNIT_H
#define ALLOTROPE_TESTS_UNIT_BLOCKS_UNIT_H

#include "tests/unit/unit.h"

#include "alloc/blocks/records.h"

/* A collector's: the heap may always grow. */
static inline enum growth grow(size_t alignment, size_t bytes, unsigned tries, bool exhausted)
{
    (void)alignment, (void)bytes, (void)tries, (void)exhausted;
    return GROW;
}

/* In a child: the kernel gives no more, and no record or granule is left. Needs blocks_lock. */
static inline void use_up_all_memory(void)
{
    blocks_heap.runs.area.held = true;
    for (size_t i = 0; i < RECORD_KINDS; i++)
        blocks_heap.records[i].area.held = true;
    for (size_t taken = 0; new_slab_record(1) || new_slab_record(SLAB_MAX_WORDS); taken++)
        require(taken < 100000);
    require(blocks_heap.runs.free_granules == 0);
}

#endif
