/* SPDX-License-Identifier: MIT
 *
 * trap.h: what the programs share that hide a pointer from a collector.
 *
 * Each makes a block, leaves its only pointer in one awkward place, has a collection done
 * (malloc_trim, under gc), and looks whether the block is still whole: kept means that it is the
 * program's and holds what was written to it. The program itself remembers the address only in a
 * form that no collector takes for one. Exit status 0: as it should be; 77: this machine lacks what
 * the case is about, as a line on standard error says.
 */
#ifndef ALLOTROPE_TESTS_GC_TRAPS_TRAP_H
#define ALLOTROPE_TESTS_GC_TRAPS_TRAP_H

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define require(condition)                                                                       \
    ((condition) ? (void)0                                                                       \
                 : (fprintf(stderr, "%s:%d: does not hold: %s (errno %d)\n", __FILE__, __LINE__, \
                            #condition, errno),                                                  \
                    exit(99)))

/* Where what the case is about is not to be had. */
static inline _Noreturn void skip(const char *reason)
{
    fprintf(stderr, "skipped: %s\n", reason);
    exit(77);
}

enum { TRAP_BYTES = 112 }; /* which fill a block */

/* A block's address, so that no word of the program is the address. */
struct disguised {
    uint32_t high, low;
};

static inline struct disguised disguise(const void *block)
{
    uint64_t address = (uint64_t)(uintptr_t)block;
    return (struct disguised){~(uint32_t)(address >> 32), ~(uint32_t)address};
}

static inline void *reveal(struct disguised disguised)
{
    return (void *)(uintptr_t)((uint64_t)~disguised.high << 32 | (uint32_t)~disguised.low);
}

__attribute__((noinline, unused)) static void *signed_block(void)
{
    unsigned char *block = malloc(TRAP_BYTES);
    require(block != NULL);
    memset(block, 0x5A, TRAP_BYTES);
    return block;
}

/* The first block of a slab has an address that others have a use for. */
__attribute__((noinline, unused)) static void pass_first_blocks(void)
{
    for (int i = 0; i < 20; i++)
        require(malloc(TRAP_BYTES) != NULL);
}

/* Overwrites what is left of addresses below the present stack frame, and in registers. */
__attribute__((noinline, unused)) static void clean_stack(void)
{
    volatile char dirt[16384];
    for (size_t i = 0; i < sizeof dirt; i++)
        dirt[i] = 0;
    __asm__ volatile("" ::
                         : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
                           "r12", "r13", "r14", "r15", "memory");
}

/* A collection; what it has freed is handed out again and overwritten. */
__attribute__((noinline, unused)) static void collect(void)
{
    clean_stack();
    malloc_trim(0);
    for (int i = 0; i < 3000; i++) {
        char *block = malloc(TRAP_BYTES);
        require(block != NULL);
        memset(block, 0xEE, TRAP_BYTES);
    }
    clean_stack();
}

__attribute__((noinline, unused)) static struct disguised lost_block(void)
{
    return disguise(signed_block());
}

__attribute__((noinline, unused)) static bool is_kept(struct disguised disguised)
{
    const unsigned char *block = reveal(disguised);
    if (malloc_usable_size((void *)block) < TRAP_BYTES)
        return false;
    for (size_t i = 0; i < TRAP_BYTES; i++)
        if (block[i] != 0x5A)
            return false;
    return true;
}

/* Whether a collection was not given up: what nothing points to dies, but for a stale word or two.
 */
__attribute__((noinline, unused)) static bool is_collected(void)
{
    enum { LOST = 50 };
    struct disguised blocks[LOST];
    int kept = 0;
    for (int i = 0; i < LOST; i++)
        blocks[i] = lost_block();
    collect();
    for (int i = 0; i < LOST; i++)
        kept += is_kept(blocks[i]);
    return kept < LOST / 5;
}

/* Collections are not given up here. */
__attribute__((noinline, unused)) static void require_collections(void)
{
    require(is_collected());
}

#endif
