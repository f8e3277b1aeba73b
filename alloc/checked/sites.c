/* SPDX-License-Identifier: MIT
 *
 * sites.c: see sites.h.
 */
#include "alloc/checked/sites.h"

#include "vm/private_memory.h"

enum { MOST_PROBES = 16 };

_Atomic uintptr_t *sites;

bool sites_init(void)
{
    sites = private_memory_map(SITES * sizeof *sites);
    return sites != NULL;
}

uint32_t site_enter(uintptr_t address, uint32_t first)
{
    for (uint32_t i = 0; i < MOST_PROBES; i++) {
        uint32_t site = (first + i) & (SITES - 1);
        if (site == 0)
            continue;
        uintptr_t found = atomic_load_explicit(&sites[site], memory_order_relaxed);
        if (found == 0)
            atomic_compare_exchange_strong_explicit(&sites[site], &found, address,
                                                    memory_order_relaxed, memory_order_relaxed);
        if (found == 0 || found == address)
            return site;
    }
    return 0;
}

const void *site_address(uint32_t site)
{
    return (const void *)atomic_load_explicit(&sites[site % SITES], memory_order_relaxed);
}
