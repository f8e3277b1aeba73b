/* SPDX-License-Identifier: MIT
 *
 * range_map.h: what lies where, while mappings come and go. A sorted array: programs have some
 * hundred mappings.
 */
#ifndef ALLOTROPE_TRACE_BASE_RANGE_MAP_H
#define ALLOTROPE_TRACE_BASE_RANGE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
    uint64_t start, end;
    size_t what; /* the user's */
};

/* All zero is an empty one. */
struct range_map {
    struct range *ranges; /* by address, none empty, none overlapping */
    size_t count, capacity;
};

/* Takes [start, end) out, and puts `what` there. False when memory is short. */
bool range_map_cut(struct range_map *map, uint64_t start, uint64_t end);
bool range_map_put(struct range_map *map, uint64_t start, uint64_t end, size_t what);

/* The range at an address, until the map changes; NULL where there is none. */
struct range *range_map_find(const struct range_map *map, uint64_t address);

void range_map_free(struct range_map *map);

#endif
