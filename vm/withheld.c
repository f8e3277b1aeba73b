/* SPDX-License-Identifier: MIT
 *
 * withheld.c: see withheld.h.
 */
#include "vm/withheld.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/syscall.h"

/* So many chunks have a terabyte in all. What lies beyond is not withheld. */
enum { MOST_CHUNKS = 128, SHARE = 8 };

static struct chunk {
    char *_Atomic start; /* NULL: not made yet */
    _Atomic size_t bytes, used;
} chunks[MOST_CHUNKS];
static _Atomic size_t last;

static size_t bytes_of(size_t index)
{
    size_t all = 0, bytes = 0;
    for (size_t i = 0; i <= index; i++) {
        bytes = round_up(all / SHARE + 1, GRANULE_BYTES);
        all += bytes;
    }
    return bytes;
}

/* Huge pages are forbidden, so that the kernel keeps the memory apart from other memory beside
 * it. */
static char *map_entered(size_t bytes, void *value)
{
    char *start = granule_map_new_pages(&beside_heaps, bytes, value);
    if (start)
        pages_allow_huge(start, bytes, false);
    return start;
}

/* The start of the chunk; NULL without memory. */
static char *start_of(size_t index)
{
    struct chunk *chunk = &chunks[index];
    char *present = atomic_load_explicit(&chunk->start, memory_order_acquire);
    if (present)
        return present;
    size_t bytes = bytes_of(index);
    char *made = map_entered(bytes, chunks);
    if (!made)
        return NULL;
    atomic_store_explicit(&chunk->bytes, bytes, memory_order_relaxed);
    if (atomic_compare_exchange_strong(&chunk->start, &present, made))
        return made;
    granule_map_drop_pages(&beside_heaps, made, bytes);
    return present;
}

/* NULL: the chunk is used up. */
static char *take_from(size_t index, char *start)
{
    struct chunk *chunk = &chunks[index];
    size_t used = atomic_fetch_add_explicit(&chunk->used, GRANULE_BYTES, memory_order_relaxed);
    size_t before = index;
    if (used < atomic_load_explicit(&chunk->bytes, memory_order_relaxed))
        return start + used;
    if (index + 1 < MOST_CHUNKS)
        atomic_compare_exchange_strong(&last, &before, index + 1);
    return NULL;
}

/* Where there is no memory for a chunk, or no chunk is left, a single granule is mapped, which is
 * not withheld. */
void *withheld_map(void)
{
    for (;;) {
        size_t index = atomic_load(&last);
        char *start = start_of(index);
        char *taken = start ? take_from(index, start) : NULL;
        if (taken)
            return taken;
        if (!start || index + 1 == MOST_CHUNKS)
            return map_entered(GRANULE_BYTES, &last);
    }
}

bool withheld_has(const void *address)
{
    return granule_map_look_up(&beside_heaps, address) == chunks;
}

static bool advise(const struct chunk *chunk, int advice)
{
    char *start = atomic_load_explicit(&chunk->start, memory_order_acquire);
    return start &&
           !syscall_failed(SYSCALL_3(SYS_madvise, start, atomic_load(&chunk->bytes), advice));
}

void withheld_begin(void)
{
    for (size_t i = 0; i <= atomic_load(&last); i++)
        if (advise(&chunks[i], MADV_DOFORK))
            advise(&chunks[i], MADV_DONTFORK);
}

void withheld_end(void)
{
    for (size_t i = 0; i <= atomic_load(&last); i++)
        advise(&chunks[i], MADV_DOFORK);
}
