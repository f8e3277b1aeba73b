/* SPDX-License-Identifier: MIT
 *
 * fast.h: the fast path of malloc, for what stands in front of it and wants no jump to it; see
 * fast.c.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_FAST_H
#define ALLOTROPE_ALLOC_BLOCKS_FAST_H

#include "alloc/blocks/heap.h"
#include "alloc/blocks/slow.h"

static inline __attribute__((always_inline)) void *alloc_fast(size_t size)
{
    if (__builtin_expect(size <= TABLE_LARGEST, 1)) {
        struct bin *bin = bin_of_size(thread_heap, size);
        keep_in_register(bin); /* so that the compiler computes it once */
        if (__builtin_expect(bin->local_free != NULL, 1))
            return take_local_free(bin);
        uint64_t word = current_free_word(bin);
        if (__builtin_expect(word != 0, 1))
            return take_lowest_free(bin, word);
    }
    return alloc_slowly(size);
}

#endif
