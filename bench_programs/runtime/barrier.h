/* SPDX-License-Identifier: MIT
 *
 * barrier.h: the store of a value into a slot, with the one write barrier of this program.
 *
 * The compiler chooses: -DBARRIER=BARRIER_CARDS -DCARD_BYTES=512, for example. A barrier is the
 * instructions behind the store:
 *
 *     BARRIER_PLAIN      none: the page tables see the store (pages, kernel, oracle)
 *     BARRIER_CARDS      card_table[slot / CARD_BYTES] = 0
 *     BARRIER_REMSETS    if (!is_integer(v) && !is_young(object) && is_young(v)) remember(slot)
 *
 * Each is one asm statement with the same operands and the same clobbers. So the compiler makes
 * the same code around all three, and the barrier is the only difference between the programs. The
 * addresses of each sequence are in the section "stores": a test subtracts what is executed there
 * from what the whole program executes (tests/bench_programs/test_runtime.py).
 *
 * -DBARRIER_BROKEN leaves the barrier out while the collector relies on it: for tests.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_RUNTIME_BARRIER_H
#define ALLOTROPE_BENCH_PROGRAMS_RUNTIME_BARRIER_H

#include "bench_programs/runtime/heap.h"

#define BARRIER_PLAIN 0
#define BARRIER_CARDS 1
#define BARRIER_REMSETS 2

#ifndef BARRIER
#define BARRIER BARRIER_PLAIN
#endif

#if BARRIER == BARRIER_CARDS && !defined BARRIER_BROKEN
#define CARD_SHIFT __builtin_ctz(CARD_BYTES)
/* Five instructions, the store included; the paper's six, but for one load of the table's base. */
#define BARRIER_INSTRUCTIONS             \
    "mov %[slot], %[scratch]\n"          \
    "shr %[shift], %[scratch]\n"         \
    "add card_base(%%rip), %[scratch]\n" \
    "movb $0, (%[scratch])\n"
#elif BARRIER == BARRIER_REMSETS && !defined BARRIER_BROKEN
#define CARD_SHIFT 0
/* Three filters: integers; stores into young objects; values that are old. Then the call, which
 * keeps all registers. */
#define BARRIER_INSTRUCTIONS                  \
    "testb $1, %b[value]\n"                   \
    "jnz 663f\n"                              \
    "mov heap_old_start(%%rip), %[scratch]\n" \
    "cmp %[scratch], %[object]\n"             \
    "jb 663f\n"                               \
    "cmp %[scratch], %[value]\n"              \
    "jae 663f\n"                              \
    "mov %[slot], %[scratch]\n"               \
    "call remember\n"                         \
    "663:\n"
#else
#define CARD_SHIFT 0
#define BARRIER_INSTRUCTIONS ""
#endif

static inline __attribute__((always_inline)) void store_slot(struct object *object, value *slot,
                                                             value v)
{
    uintptr_t scratch;
    __asm__ volatile inline(
        "661: mov %[value], (%[slot])\n" BARRIER_INSTRUCTIONS "662:\n"
        ".pushsection stores, \"a\"\n"
        ".quad 661b, 662b\n"
        ".popsection\n"
        : [scratch] "=&D"(scratch)
        : [object] "r"(object), [slot] "r"(slot), [value] "q"(v), [shift] "n"(CARD_SHIFT)
        : "memory", "cc");
}

/* Any store into an object that others may already know. It is counted in all programs alike. */
static inline __attribute__((always_inline)) void store(struct object *object, size_t index,
                                                        value v)
{
    heap.store_checks++;
    store_slot(object, &object->slots[index], v);
}

#endif
