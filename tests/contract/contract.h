/* SPDX-License-Identifier: MIT
 *
 * contract.h: what the programs of the drop-in contract share.
 *
 * Each program tries one thing that is known to break allocators that are put under programs
 * which do not know of them. It exits with 0 when all is well; a requirement that does not hold
 * is named on standard error and the exit status is 99. Nothing here allocates.
 */
#ifndef ALLOTROPE_TESTS_CONTRACT_CONTRACT_H
#define ALLOTROPE_TESTS_CONTRACT_CONTRACT_H

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_programs/random.h"

#define require(condition) \
    ((condition) ? (void)0 : requirement_failed(#condition, __FILE__, __LINE__))

static inline void requirement_failed(const char *condition, const char *file, int line)
{
    char text[512];
    int length = snprintf(text, sizeof text, "%s:%d: does not hold: %s (errno %d)\n", file, line,
                          condition, errno);
    if (write(2, text, (size_t)length) < 0)
        _exit(98);
    _exit(99);
}

/* A pointer of which the compiler knows nothing. */
static inline void *opaque(void *pointer)
{
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

/* Fills a block with a pattern that depends on its address and tells whether it is still there:
 * a block that was handed out twice does not keep it. */
static inline void fill(void *block, size_t size)
{
    memset(block, (int)((uintptr_t)block >> 4 & 0xFF), size);
}

/* Whether each byte is this one. By memcmp, which takes a tenth of what a loop does. */
static inline bool is_all(const void *block, int byte, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)block;
    return size == 0 ||
           (bytes[0] == (unsigned char)byte && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static inline bool is_filled(const void *block, size_t size)
{
    return is_all(block, (int)((uintptr_t)block >> 4 & 0xFF), size);
}

/* Allocates, fills, verifies and frees blocks of many sizes, small and mapped ones. */
static inline void exercise(void)
{
    static const size_t sizes[] = {0, 1, 24, 100, 1000, 5000, 40000, 300000, 3000000};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    void *blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        blocks[i] = malloc(sizes[i]);
        require(blocks[i] != NULL);
        fill(blocks[i], sizes[i]);
    }
    for (size_t i = 0; i < SIZES; i++) {
        require(is_filled(blocks[i], sizes[i]));
        free(blocks[i]);
    }
}

#endif
