/* SPDX-License-Identifier: MIT
 *
 * young_map.h: which granules of the window belong to young slabs, a byte each.
 *
 * A minor collection meets many words that name old blocks, and must not look at their slabs'
 * records for each: those are spread over as many pages as there are granules in 2 MiB. This map
 * has 16 KiB for a gigabyte of heap, and stays in the processor's cache. A byte holds the number of
 * the last collection in which the granule was young, so nothing is cleared between two.
 *
 *     granule      | 0 | 1 | 2 | 3 | 4 | ...      number = 7
 *     byte         | 7 | 5 | 7 | 7 | 0 |          0, 2 and 3 are young
 *
 * The map has granules for the first part of the window. A granule behind that part, or outside of
 * the window, counts as young.
 */
#ifndef ALLOTROPE_GC_MARK_YOUNG_MAP_H
#define ALLOTROPE_GC_MARK_YOUNG_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "vm/granule_map.h"
#include "vm/private_memory.h"
#include "vm/window.h"

struct young_map {
    uint8_t *granules;
    uintptr_t base; /* the window's */
    uint8_t number;
};

#define YOUNG_MAP_GRANULES (((size_t)64 << 30) / GRANULE_BYTES)

/* False: without memory. */
static inline bool young_map_init(struct young_map *map)
{
    map->granules = private_memory_map(YOUNG_MAP_GRANULES + 1); /* the last for all behind */
    map->base = window.base;
    return map->granules != NULL;
}

/* None is young. When the numbers are used up the map is made anew. */
static inline void young_map_begin(struct young_map *map)
{
    size_t used = window_used_bytes() / GRANULE_BYTES + 1;
    if (++map->number == 0) {
        memset(map->granules, 0, used < YOUNG_MAP_GRANULES ? used : YOUNG_MAP_GRANULES);
        map->number = 1;
    }
    map->granules[YOUNG_MAP_GRANULES] = map->number;
}

static inline void young_map_enter(const struct young_map *map, uintptr_t start, size_t granules)
{
    size_t first = (start - map->base) / GRANULE_BYTES;
    if (first < YOUNG_MAP_GRANULES)
        memset(map->granules + first, map->number,
               granules < YOUNG_MAP_GRANULES - first ? granules : YOUNG_MAP_GRANULES - first);
}

static inline bool young_map_has(const struct young_map *map, uintptr_t address)
{
    size_t granule = (address - map->base) / GRANULE_BYTES;
    granule = granule < YOUNG_MAP_GRANULES ? granule : YOUNG_MAP_GRANULES;
    return map->granules[granule] == map->number;
}

/* Whether a word may name a young block. One that names the start of a granule may mean the block
 * that ends there, which is another slab's. Without a branch, which would be guessed wrong as often
 * as right. */
static inline bool young_map_named(const struct young_map *map, uintptr_t word)
{
    return young_map_has(map, word) | (word % GRANULE_BYTES == 0);
}

#endif
