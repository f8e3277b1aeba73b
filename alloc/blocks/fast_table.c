/* SPDX-License-Identifier: MIT
 *
 * fast_table.c: see fast_table.h.
 */
#include "alloc/blocks/fast_table.h"

#include <string.h>

#include "alloc/blocks/records.h"
#include "vm/granule_map.h"
#include "vm/pages.h"

/* The shadow has a bit for each unit, which is a byte for 2^7 bytes. */
enum { LIVE_BITS_SHIFT = 7 };

/* Until the window is placed every address is out of the table's reach. */
struct fast_table fast_table = {.base = (uintptr_t)1 << 62};

/* The table lies between the bits, which are at the shadow's front, and the window. */
bool fast_table_init(bool collected)
{
    const size_t bytes = FAST_TABLE_GRANULES * sizeof *fast_table.bins;
    window_init(LIVE_BITS_SHIFT);
    fast_table.live_bits = (_Atomic uint64_t *)window.shadow;
    void *bins = (char *)window.base - 2 * bytes; /* a gap: the window stays a mapping of its own */
    fast_table.bins = pages_map_at(bins, bytes) ? bins : pages_map(bytes, GRANULE_BYTES);
    fast_table.base = window.base;
    return fast_table.bins && (!collected || enter_private_memory(fast_table.bins, bytes));
}

void fast_table_set_bin(const struct slab *slab, struct bin *bin)
{
    size_t first = fast_table_unit(slab->base) / UNITS_PER_GRANULE;
    for (size_t i = first; i < first + slab->granules && i < FAST_TABLE_GRANULES; i++)
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
