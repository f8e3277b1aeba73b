/* SPDX-License-Identifier: MIT
 *
 * private_memory.c: see private_memory.h.
 */
#include "vm/private_memory.h"

#include <stdatomic.h>

#include "vm/granule_map.h"
#include "vm/pages.h"

struct owner private_memory_owner = {OWNER_RECORDS};
static _Atomic unsigned unmaps;

void *private_memory_map(size_t bytes)
{
    return granule_map_new_pages(&owners, round_up(bytes, GRANULE_BYTES), &private_memory_owner);
}

void *private_memory_map_shared(size_t bytes)
{
    bytes = round_up(bytes, GRANULE_BYTES);
    void *start = pages_map_shared(bytes, GRANULE_BYTES);
    if (!start || granule_map_set(start, bytes, &private_memory_owner))
        return start;
    private_memory_unmap(start, bytes);
    return NULL;
}

void private_memory_unmap(void *start, size_t bytes)
{
    granule_map_drop_pages(&owners, start, round_up(bytes, GRANULE_BYTES));
    atomic_fetch_add_explicit(&unmaps, 1, memory_order_relaxed);
}

unsigned private_memory_unmaps(void)
{
    return atomic_load_explicit(&unmaps, memory_order_relaxed);
}
