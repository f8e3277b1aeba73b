/* SPDX-License-Identifier: MIT
 *
 * zero_size.h: blocks of no bytes: addresses in a range without access.
 *
 * A bit for each unit of 16 bytes of the range tells whether it is a block. The search for a free
 * one goes on where the last ended, so an address comes back late.
 *
 * Writer of a word of bits: any thread, by atomic changes of single bits.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_ZERO_SIZE_H
#define ALLOTROPE_ALLOC_CHECKED_ZERO_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/heap.h"

enum { ZERO_SIZE_BYTES = 1 << 20 };

extern char *zero_size_range __attribute__((visibility("hidden")));

/* Reserves the range. Where that fails there is no range, and zero_size_holds is always false. */
void zero_size_init(void);

static inline bool zero_size_holds(const void *address)
{
    return zero_size_range && (uintptr_t)address - (uintptr_t)zero_size_range < ZERO_SIZE_BYTES;
}

/* alignment: a power of two. NULL: there is no such address left. */
void *zero_size_alloc(size_t alignment);
/* False: it is no live block. */
bool zero_size_free(const void *block);
bool zero_size_is_live(const void *block);
/* As fault_reporter (faults.h). */
bool zero_size_report_fault(const char *access, const void *address, const void *at);
/* Visits those that are live, as blocks of the bytes that no other may have. */
void zero_size_walk(heap_visitor *visit, void *argument);

#endif
