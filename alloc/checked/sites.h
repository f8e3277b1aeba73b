/* SPDX-License-Identifier: MIT
 *
 * sites.h: return addresses as small numbers, for the trailers.
 *
 * A table by address, open addressing, in which entries only come: so any thread reads it without a
 * lock. Neighbouring code falls on the same page of the table. 0: not known, or no room.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_SITES_H
#define ALLOTROPE_ALLOC_CHECKED_SITES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SITE_BITS = 15, SITES = 1 << SITE_BITS };

extern _Atomic uintptr_t *sites __attribute__((visibility("hidden")));

/* Maps the table. False: no memory. */
bool sites_init(void);

uint32_t site_enter(uintptr_t address, uint32_t first) __attribute__((noinline));

static inline uint32_t site_of(const void *address)
{
    uint32_t first = (uintptr_t)address >> 3 & (SITES - 1);
    if (__builtin_expect(
            atomic_load_explicit(&sites[first], memory_order_relaxed) == (uintptr_t)address, 1))
        return first;
    return site_enter((uintptr_t)address, first);
}

/* NULL for 0. */
const void *site_address(uint32_t site);

#endif
