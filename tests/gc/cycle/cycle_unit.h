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
#include "gc/cycle/collect.h"
#include "gc/cycle/concurrent.h"
#include "vm/pages.h"

#define NOT_INLINED __attribute__((noinline, unused))

/* Overwrites what earlier calls have left on the stack. */
static NOT_INLINED void wipe_stack(void)
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

/* Blocks that a test knows by numbers that are no addresses, so that nothing points to them. */
static const uintptr_t DISGUISE = (uintptr_t)0x5A5A << 48;

static NOT_INLINED void hide_blocks(void **blocks, uintptr_t *hidden, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hidden[i] = (uintptr_t)blocks[i] ^ DISGUISE;
        blocks[i] = NULL;
    }
}

static NOT_INLINED void reveal_blocks(const uintptr_t *hidden, size_t count, void **at)
{
    for (size_t i = 0; i < count; i++)
        at[i] = (void *)(hidden[i] ^ DISGUISE);
}

/* 0 among the numbers: none. */
static NOT_INLINED size_t count_live(const uintptr_t *hidden, size_t count)
{
    size_t live = 0;
    for (size_t i = 0; i < count; i++)
        live += hidden[i] && blocks_usable_size((void *)(hidden[i] ^ DISGUISE)) > 0;
    return live;
}

/* For a collector whose tests alone begin collections. */
static inline bool never_collect(void)
{
    return false;
}

/* Cycles. */

static inline void require_cycles(void)
{
    if (!concurrent_is_on())
        skip(); /* the kernel does not tell which pages were written */
}

static inline void full(void)
{
    wipe_stack();
    uint64_t before = collect_statistics()->full.collections;
    assert_true(collect(CAUSE_ASKED, 0));
    assert_int_equal(collect_statistics()->full.collections, before + 1);
    assert_false(concurrent_runs());
}

static inline void begin_cycle(void)
{
    wipe_stack();
    assert_false(collect(CAUSE_CYCLE, 0));
    assert_true(concurrent_runs());
    assert_true(blocks_is_valid());
}

/* Until nothing is left but the last stop. */
static inline void mark_all(void)
{
    while (!concurrent_is_to_stop()) {
        assert_true(concurrent_runs()); /* it may have been given up */
        collect_slice((size_t)1 << 30);
    }
}

static inline void end_cycle(void)
{
    wipe_stack();
    uint64_t before = collect_statistics()->full.collections;
    assert_true(collect(CAUSE_CYCLE, 0));
    assert_int_equal(collect_statistics()->full.collections, before + 1);
    assert_false(concurrent_runs());
    assert_true(blocks_is_valid());
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
