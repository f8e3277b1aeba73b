/* SPDX-License-Identifier: MIT
 *
 * private_memory.c: see private_memory.h.
 */
#include "vm/private_memory.h"

#include <sys/mman.h>

#include "vm/owner.h"
#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/syscall.h"

static struct owner private_memory = {OWNER_RECORDS};

void *private_memory_map(size_t bytes)
{
    bytes = round_up(bytes, GRANULE_BYTES);
    void *start = pages_map(bytes, GRANULE_BYTES);
    if (start && !granule_map_set(start, bytes, &private_memory)) {
        private_memory_unmap(start, bytes);
        return NULL;
    }
    return start;
}

void *private_memory_map_shared(size_t bytes)
{
    void *start = private_memory_map(bytes);
    if (!start)
        return NULL;
    long mapped = SYSCALL_6(SYS_mmap, start, round_up(bytes, GRANULE_BYTES), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (!syscall_failed(mapped))
        return start;
    private_memory_unmap(start, bytes);
    return NULL;
}

void private_memory_unmap(void *start, size_t bytes)
{
    bytes = round_up(bytes, GRANULE_BYTES);
    granule_map_set(start, bytes, NULL);
    pages_unmap(start, bytes);
}
