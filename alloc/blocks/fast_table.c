/* SPDX-License-Identifier: MIT
 *
 * fast_table.c: see fast_table.h.
 */
#include "alloc/blocks/fast_table.h"

#include <string.h>

#include "alloc/blocks/records.h"
#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/written.h"

/* The shadow has a bit for each unit, which is a byte for 2^7 bytes. */
enum { LIVE_BITS_SHIFT = 7 };

/* TABLE_BYTES: the table of the whole window. STEP_BYTES: how much of it is mapped at once. PLACES:
 * how many places are tried for the table, each TABLE_BYTES below the one before, in case something
 * else is in the way. */
enum {
    TABLE_BYTES = WINDOW_BYTES / GRANULE_BYTES * sizeof(struct bin *),
    STEP_BYTES = GRANULE_BYTES,
    STEP_GRANULES = STEP_BYTES / sizeof(struct bin *),
    PLACES = 16,
};

WRITTEN_AT_START struct fast_table fast_table;

/* Maps the table's next part; the ones before must be mapped. */
static bool map_step(bool collected)
{
    size_t granules = fast_table.granules;
    void *step = (void *)&fast_table.bins[granules];
    if (granules == WINDOW_BYTES / GRANULE_BYTES || !pages_map_at(step, STEP_BYTES))
        return false;
    if (collected && !enter_private_memory(step, STEP_BYTES)) {
        pages_unmap(step, STEP_BYTES);
        return false;
    }
    __atomic_store_n(&fast_table.granules, granules + STEP_GRANULES, __ATOMIC_RELEASE);
    return true;
}

bool fast_table_init(bool collected)
{
    window_init(LIVE_BITS_SHIFT);
    fast_table.base = window.base;
    fast_table.live_bits = (_Atomic uint64_t *)window.shadow;
    fast_table.live_origin = (uintptr_t)window.shadow - (window.base >> LIVE_BITS_SHIFT);
    /* The least distance leaves a gap: the window stays a mapping of its own. */
    for (size_t place = 2; place < 2 + PLACES && fast_table.granules == 0; place++) {
        fast_table.bins = (struct bin * _Atomic *)(window.base - place * TABLE_BYTES);
        map_step(collected);
    }
    return fast_table.granules > 0;
}

void fast_table_cover(const char *base, size_t granules)
{
    size_t end = fast_table_unit(base) / UNITS_PER_GRANULE + granules;
    while (fast_table.granules < end && map_step(blocks_heap.collector != NULL))
        ;
}

void fast_table_set_bin(const struct slab *slab, struct bin *bin)
{
    size_t first = fast_table_unit(slab->base) / UNITS_PER_GRANULE;
    for (size_t i = first; i < first + slab->granules && fast_table_covers(i); i++)
        atomic_store_explicit(&fast_table.bins[i], bin, memory_order_relaxed);
}

/* The bits are cleared although they are zero in memory from the kernel: a [late live bit] may have
 * come back after the memory was given back. */
void enter_live_bits(char *base, size_t granules)
{
    _Atomic uint64_t *bits = &fast_table.live_bits[fast_table_unit(base) / LIVE_BITS_PER_WORD];
    size_t bytes = granules * UNITS_PER_GRANULE / 8;
    memset((void *)bits, 0, bytes);
    char *granule = (char *)round_down((uintptr_t)bits, GRANULE_BYTES);
    if (blocks_heap.collector && !granule_map_get(granule))
        enter_private_memory(granule, GRANULE_BYTES);
}

/* A block of n units has a bit every n bits, so 64 blocks have n words of bits to themselves. */
void blocks_clear_live(const struct slab *slab, size_t word, uint64_t blocks, bool last)
{
    if (slab_is_large(slab))
        return;
    size_t units = slab->block_bytes >> UNIT_SHIFT, first = word * units;
    size_t slab_unit = fast_table_unit(slab->base);
    if (last && count_bits(blocks) > units / 4) {
        size_t left = slab->granules * UNITS_PER_GRANULE / LIVE_BITS_PER_WORD - first;
        memset((void *)&fast_table.live_bits[slab_unit / LIVE_BITS_PER_WORD + first], 0,
               (units < left ? units : left) * sizeof *fast_table.live_bits);
        return;
    }
    for (size_t unit = slab_unit + first * LIVE_BITS_PER_WORD; blocks; blocks &= blocks - 1)
        clear_live(unit + (size_t)__builtin_ctzl(blocks) * units);
}
