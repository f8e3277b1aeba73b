/* SPDX-License-Identifier: MIT
 *
 * metadata.c: see metadata.h.
 */
#include "vm/metadata.h"

#include "vm/lock.h"
#include "vm/pages.h"

enum { CHUNK_BYTES = 65536, ALIGNMENT = 64 };

struct lock metadata_lock = LOCK_INITIALIZER(RANK_PAGES);

/* What every process needs (the first arena with its lock) lies beside the locks: no mapping, and
 * one page for fork to write. */
static char first_chunk[3072] __attribute__((aligned(64), section(".data")));
static char *next_free = first_chunk, *chunk_end = first_chunk + sizeof first_chunk;

static void *take(size_t bytes)
{
    if (bytes > (size_t)(chunk_end - next_free)) {
        size_t chunk = bytes > CHUNK_BYTES ? round_up(bytes, PAGE_BYTES) : CHUNK_BYTES;
        char *start = pages_map(chunk, PAGE_BYTES);
        if (!start)
            return NULL;
        next_free = start;
        chunk_end = start + chunk;
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
