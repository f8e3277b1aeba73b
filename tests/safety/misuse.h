/* SPDX-License-Identifier: MIT
 *
 * misuse.h: what the programs of the corpus share.
 *
 * The corpus is one executable of many programs: each named case is a process of its own, that
 * misuses the heap in one way, goes on for a while as a program would, and looks what came of it.
 *
 *     exit status 0     harmless    it went on, and no memory was harmed
 *     exit status 1     undetected  it went on, and some memory was harmed, or a fault unnoticed
 *     exit status 77    caught      a fault at the very access, which only a guard can bring about
 *     exit status 78    crashed     a fault elsewhere: luck, which a later program has not
 *     another signal    caught      the allocator ended the process
 *
 * So a case never makes itself crash. What stands on standard error besides is the runner's matter
 * (misuse_table.py): the allocator went on, but has reported.
 */
#ifndef ALLOTROPE_TESTS_SAFETY_MISUSE_H
#define ALLOTROPE_TESTS_SAFETY_MISUSE_H

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

struct misuse {
    const char *category, *name;
    bool (*is_harmed)(); /* does it; true: harm was done, and nobody has said so */
};

/* Each file's cases, ended by one without a name. */
extern const misuse cases_of_free[], cases_of_writes[], cases_of_contents[], cases_of_sizes[];

/* What is about to be touched and is not ours to touch: a fault there is a catch. */
void expect_fault(const volatile void *start, size_t bytes);

/* A value of which the compiler knows nothing. */
template <typename type> static inline type opaque(type value)
{
    __asm__ volatile("" : "+r"(value) : : "memory");
    return value;
}

static inline char *block_of(size_t bytes)
{
    char *block = static_cast<char *>(opaque(malloc(bytes)));
    if (!block)
        _Exit(99);
    memset(block, 'b', bytes);
    return block;
}

/* Writes a byte that is not the block's, and says whether that changes one that the allocator does
 * not let the program use: else nobody is harmed. */
static inline bool write_outside(char *block, ptrdiff_t offset, char value)
{
    bool outside = offset < 0 || (size_t)offset >= malloc_usable_size(block);
    volatile char *byte = block + offset;
    expect_fault(byte, 1);
    bool changes = *byte != value;
    *byte = value;
    return outside && changes;
}

/* Goes on for a while: blocks of the size come and go. True: one was handed out that overlaps
 * another, or a stretch that is not the heap's to hand out. */
static inline bool hands_out_twice(size_t bytes, const void *kept = nullptr, size_t kept_bytes = 0)
{
    enum { BLOCKS = 64 };
    char *blocks[BLOCKS];
    bool twice = false;
    size_t used = bytes < 64 ? bytes : 64;
    for (char *&block : blocks) {
        block = static_cast<char *>(opaque(malloc(bytes)));
        twice |= kept && block && block < static_cast<const char *>(kept) + kept_bytes &&
                 static_cast<const char *>(kept) < block + bytes;
    }
    for (int i = 0; i < BLOCKS; i++)
        for (int j = 0; j < i; j++)
            twice |= blocks[i] && blocks[i] == blocks[j];
    if (twice)
        return true;
    for (char *block : blocks)
        if (block)
            memset(block, 'n', used);
    for (char *block : blocks)
        free(block);
    return false;
}

#endif
