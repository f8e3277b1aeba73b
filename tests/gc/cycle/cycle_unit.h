/* SPDX-License-Identifier: MIT
 *
 * cycle_unit.h: what tests of whole collections share.
 */
#ifndef ALLOTROPE_TESTS_GC_CYCLE_CYCLE_UNIT_H
#define ALLOTROPE_TESTS_GC_CYCLE_CYCLE_UNIT_H

#include "tests/unit/blocks_unit.h"

#include <string.h>
#include <sys/mman.h>

#include "alloc/blocks/blocks.h"
#include "vm/pages.h"

/* Overwrites what earlier calls have left on the stack. */
static __attribute__((noinline)) void wipe_stack(void)
{
    volatile char bytes[16384];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = 0;
}

/* A block of zeros. */
static inline void **new_parent(size_t bytes)
{
    void **parent = blocks_alloc(bytes);
    assert_non_null(parent);
    memset(parent, 0, bytes);
    return parent;
}

/* The registration goes with the page, and does not come back with it. */
static inline void lose_registration(char *page)
{
    char *elsewhere = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(mremap(page, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) ==
                elsewhere);
    assert_true(mremap(elsewhere, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, page) ==
                page);
}

#endif
