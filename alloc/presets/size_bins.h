/* SPDX-License-Identifier: MIT
 *
 * size_bins.h: bins for heaps that have no size classes of their own.
 *
 * Blocks of up to 256 bytes, headers included, have a bin for each multiple of 16; beyond, every
 * doubling has eight, so that rounding up costs an eighth at most and a sixteenth on average:
 *
 *   16 32 48 ... 240 256 | 288 320 ... 512 | 576 640 ... 1024 | ... | 9216 ... 15360
 */
#ifndef ALLOTROPE_ALLOC_PRESETS_SIZE_BINS_H
#define ALLOTROPE_ALLOC_PRESETS_SIZE_BINS_H

#include <stddef.h>

enum {
    SIZE_BIN_UNIT = 16,
    SIZE_BINS_LINEAR = 16,
    SIZE_BINS_LOG = 8, /* 2^8 bytes: where the linear ones end */
    SIZE_BINS_A_DOUBLING_LOG = 3,
};

/* The bin whose blocks are the smallest of at least `bytes`, which is not 0. */
static inline unsigned size_bin_of(size_t bytes)
{
    if (__builtin_expect(bytes <= SIZE_BINS_LINEAR * SIZE_BIN_UNIT, 1))
        return (unsigned)((bytes - 1) / SIZE_BIN_UNIT);
    unsigned log = 63 - (unsigned)__builtin_clzll(bytes - 1);
    unsigned step_log = log - SIZE_BINS_A_DOUBLING_LOG;
    unsigned step = (unsigned)((bytes - 1) >> step_log) & ((1 << SIZE_BINS_A_DOUBLING_LOG) - 1);
    return SIZE_BINS_LINEAR + ((log - SIZE_BINS_LOG) << SIZE_BINS_A_DOUBLING_LOG) + step;
}

/* size_bin_bytes of a bin beyond the linear ones, as a constant. */
#define SIZE_BINS_LARGEST(bin)                  \
    ((size_t)(9 + ((bin)-SIZE_BINS_LINEAR) % 8) \
     << (SIZE_BINS_LOG - SIZE_BINS_A_DOUBLING_LOG + ((bin)-SIZE_BINS_LINEAR) / 8))

/* Bytes of a bin's blocks, a multiple of SIZE_BIN_UNIT. */
static inline size_t size_bin_bytes(unsigned bin)
{
    if (bin < SIZE_BINS_LINEAR)
        return (bin + 1) * (size_t)SIZE_BIN_UNIT;
    unsigned beyond = bin - SIZE_BINS_LINEAR;
    unsigned log = SIZE_BINS_LOG + (beyond >> SIZE_BINS_A_DOUBLING_LOG);
    size_t step = (beyond & ((1 << SIZE_BINS_A_DOUBLING_LOG) - 1)) + 1;
    return ((size_t)1 << log) + (step << (log - SIZE_BINS_A_DOUBLING_LOG));
}

/* For heaps whose blocks have one word of header, and 32 bytes at least, so that a shadow byte
 * serves 32. A bin holds blocks by their bytes, header included; the first bin, of 16, is left
 * out. */
enum { TAGGED_HEADER_BYTES = 8, TAGGED_LEAST_BYTES = 32 };

static inline unsigned tagged_bin_of(size_t size)
{
    size_t bytes = size + TAGGED_HEADER_BYTES;
    return bytes <= TAGGED_LEAST_BYTES ? 0 : size_bin_of(bytes) - 1;
}

static inline size_t tagged_bin_request(unsigned bin)
{
    return size_bin_bytes(bin + 1) - TAGGED_HEADER_BYTES;
}

/* The rows of a layered_policy that follow from these. */
#define TAGGED_BINS                                                                           \
    .shadow_shift = 5, .bins = BINS,                                                          \
    .largest_binned = SIZE_BINS_LARGEST(BINS) - TAGGED_HEADER_BYTES, .bin_of = tagged_bin_of, \
    .bin_request = tagged_bin_request

#endif
