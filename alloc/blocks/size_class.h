/* SPDX-License-Identifier: MIT
 *
 * size_class.h: the block sizes of `blocks`.
 *
 *     to 256 bytes       every 16
 *     to 2048            eight to a doubling
 *     to 32 KiB          four to a doubling
 *
 * Small sizes are what programs ask for most and are looked up in a table, which has the class's
 * bin at once: its distance from the first (bin.h). Rounding loses at most
 * 15 bytes, then 12.5%, then 25% of what is asked for.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_SIZE_CLASS_H
#define ALLOTROPE_ALLOC_BLOCKS_SIZE_CLASS_H

#include <stddef.h>
#include <stdint.h>

enum {
    SIZE_CLASSES = 56,
    TABLE_LARGEST = 2048,
    CLASS_LARGEST = 32768,
    CLASS_AT_TABLE_LARGEST = 39,
    BIN_BYTES = 64,
};

extern const uint16_t size_class_bytes[SIZE_CLASSES];
/* By (size + 15) / 16; each is the class's index times BIN_BYTES. */
extern const uint16_t bin_offsets[TABLE_LARGEST / 16 + 1] __attribute__((visibility("hidden")));

/* size: above TABLE_LARGEST, at most CLASS_LARGEST. */
static inline unsigned size_class_computed(size_t size)
{
    unsigned log = 63 - (unsigned)__builtin_clzl(size - 1); /* size in (2^log, 2^(log+1)] */
    unsigned quarter = (unsigned)((size - 1) >> (log - 2)) & 3;
    return CLASS_AT_TABLE_LARGEST + 1 + (log - 11) * 4 + quarter;
}

/* size: at most CLASS_LARGEST; 0 counts as 1. */
static inline unsigned size_class_of(size_t size)
{
    if (__builtin_expect(size <= TABLE_LARGEST, 1))
        return bin_offsets[(size + 15) / 16] / BIN_BYTES;
    return size_class_computed(size);
}

#endif
