/* SPDX-License-Identifier: MIT
 *
 * metadata.c: see metadata.h.
 */
#include "vm/metadata.h"

#include "vm/lock.h"
#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/written.h"

enum { ALIGNMENT = 64 };

struct lock metadata_lock = LOCK_INITIALIZER(RANK_PAGES);

/* What every process needs (the first arena with its lock) lies beside the locks: no mapping, and
 * one page for fork to write. */
static WRITTEN_AT_START char first_extent[3072] __attribute__((aligned(64)));
static char *next_free = first_extent, *extent_end = first_extent + sizeof first_extent;

static void *take(size_t bytes)
{
    if (bytes > (size_t)(extent_end - next_free)) {
        size_t extent = round_up(bytes, GRANULE_BYTES);
        char *start = granule_map_new_pages(&beside_heaps, extent, &metadata_lock); /* any value */
        if (!start)
            return NULL;
        next_free = start;
        extent_end = start + extent;
    }
    void *result = next_free;
    next_free += bytes;
    account_metadata((ptrdiff_t)bytes);
    return result;
}

void *metadata_alloc(size_t bytes)
{
    lock_acquire(&metadata_lock);
    void *result = take(round_up(bytes, ALIGNMENT));
    lock_release(&metadata_lock);
    return result;
}

void metadata_first_extent(const void **start, size_t *bytes)
{
    *start = first_extent;
    *bytes = sizeof first_extent;
}
