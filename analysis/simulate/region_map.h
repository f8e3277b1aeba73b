/* SPDX-License-Identifier: MIT
 *
 * region_map.h: what lies at an address while a program runs: heap, static data, stack, or memory
 * that was mapped otherwise (threads' stacks among it). Told by the events of a trace; a mapping
 * is heap from the first block that malloc hands out of it.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_REGION_MAP_H
#define ALLOTROPE_ANALYSIS_SIMULATE_REGION_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/format/format.h"
#include "trace/base/range_map.h"

enum region_class { REGION_OTHER, REGION_HEAP, REGION_STATIC, REGION_STACK, REGION_CLASSES };

/* All zero is an empty one. */
struct region_map {
    struct range_map classes; /* of enum region_class */
    struct range last; /* where the last address was found: most lie where the last one did */
};

/* Takes note of mappings and blocks. False when memory is short. */
bool region_map_take(struct region_map *map, const struct trace_event *event);
enum region_class region_map_find_slowly(struct region_map *map, uint64_t address);
void region_map_free(struct region_map *map);

static inline enum region_class region_map_find(struct region_map *map, uint64_t address)
{
    if (address >= map->last.start && address < map->last.end)
        return (enum region_class)map->last.what;
    return region_map_find_slowly(map, address);
}

const char *region_class_name(enum region_class class);

#endif
