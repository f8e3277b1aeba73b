/* SPDX-License-Identifier: MIT
 *
 * lend.h: lends what may be lent, as the first half of a snapshot's stop does (gc/world/roots.c).
 */
#ifndef ALLOTROPE_TESTS_GC_WORLD_LEND_H
#define ALLOTROPE_TESTS_GC_WORLD_LEND_H

#include "tests/unit/unit.h"

#include "gc/world/excepted.h"
#include "vm/kernel/process.h"

static inline void lend(void)
{
    const struct mapping *mappings;
    size_t count;
    assert_true(process_read_mappings(&mappings, &count));
    for (size_t i = 0; i < count; i++)
        if (excepted_may_be_lent(&mappings[i]))
            excepted_lend(&mappings[i]);
}

#endif
