/* SPDX-License-Identifier: MIT
 *
 * pool.h: pages with one block each, between pages without access: where the sampled blocks of
 * `blocks:guard` lie.
 *
 *     | guard | page 0 | guard | page 1 | guard | ... | page n-1 | guard |
 *
 *     live      | filled ............. block | slack |     the block ends with the page; every
 *                                                          fourth, at random, begins with it
 *     freed     no access, no memory; the longest freed is the next to be used again
 *
 * An access that leaves the page faults, and so does every one to a freed block (faults.h). What is
 * written beside a block within its page is found when it is freed, or at exit.
 *
 * No lock: a slot passes from one holder to the next by its state. Each arrow is one atomic
 * instruction, and only who holds a slot (HELD, LOOKED_AT) writes to it. A thread that is stopped
 * while it holds a slot keeps that one slot from use. So does one that the child of a fork has not,
 * unless it only looked: pool_fork_child.
 *
 *     FREED, a number ── allocate ──> HELD ──> LIVE ── free ──> HELD ──> FREED, a higher number
 *                                              LIVE <── exit ──> LOOKED_AT   (a free waits)
 *
 * Sources: Perens, Electric Fence, 1987; GWP-ASan (LLVM, compiler-rt/lib/gwp_asan).
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_POOL_H
#define ALLOTROPE_ALLOC_CHECKED_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/heap.h"
#include "vm/pages.h"

/* Makes the pool, with room for so many blocks, live and freed. Called before all others. */
enum { POOL_LEAST = 4, POOL_MOST = 65536 };
void pool_init(size_t slots);

/* A block whose bytes are zero. alignment: a power of two. random: the block's place depends on it.
 * NULL: there is no room, or it would not fit in a page, or has no bytes. */
void *pool_alloc(size_t alignment, size_t size, uint64_t random);

extern char *_Atomic pool_start __attribute__((visibility("hidden")));
extern size_t pool_bytes __attribute__((visibility("hidden")));

/* Whether an address lies in the pool. */
static inline bool pool_holds(const void *address)
{
    uintptr_t start = (uintptr_t)__atomic_load_n((char **)&pool_start, __ATOMIC_ACQUIRE);
    return start && (uintptr_t)address - start < pool_bytes;
}

/* For any address in the pool. What is wrong is reported; a block that was freed already, or an
 * address that is no block's start, ends the process. */
void pool_free(void *block, const char *function);
/* Requested bytes. False: no live block begins there. */
bool pool_find(const void *block, size_t *bytes);
void pool_walk(heap_visitor *visit, void *argument);

struct pool_counts {
    uint64_t sampled, live, passed_over; /* passed_over: there was no room */
};
void pool_count(struct pool_counts *counts);

/* Reports what was written beside live blocks. Other threads may run. */
void pool_look(void);
/* In the child of a fork: nobody looks at a block any more, so its free does not wait; and nobody
 * opens the pool. */
void pool_fork_child(void);

/* As fault_reporter (faults.h). */
bool pool_report_fault(const char *access, const void *address, const void *at);

#endif
