/* SPDX-License-Identifier: MIT
 *
 * memory.c: see memory.h.
 */
#include "gc/memory.h"

#include "alloc/owner.h"
#include "vm/pagemap.h"
#include "vm/pages.h"

static struct owner own_memory = {OWNER_RECORDS};

void *own_memory_map(size_t bytes)
{
    bytes = round_up(bytes, GRANULE_BYTES);
    void *start = pages_map(bytes, GRANULE_BYTES);
    if (start && !pagemap_set(start, bytes, &own_memory)) {
        own_memory_unmap(start, bytes);
        return NULL;
    }
    return start;
}

void own_memory_unmap(void *start, size_t bytes)
{
    bytes = round_up(bytes, GRANULE_BYTES);
    pagemap_set(start, bytes, NULL);
    pages_unmap(start, bytes);
}
