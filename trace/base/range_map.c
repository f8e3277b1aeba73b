/* SPDX-License-Identifier: MIT
 *
 * range_map.c: see range_map.h.
 */
#include "trace/base/range_map.h"

#include <stdlib.h>
#include <string.h>

#include "trace/base/array.h"

/* The first range that ends beyond an address. */
static size_t index_of(const struct range_map *map, uint64_t address)
{
    size_t low = 0, high = map->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (map->ranges[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert(struct range_map *map, struct range range)
{
    if (!array_reserve(&map->ranges, &map->capacity, map->count, sizeof *map->ranges))
        return false;
    size_t index = index_of(map, range.start);
    memmove(map->ranges + index + 1, map->ranges + index,
            (map->count - index) * sizeof *map->ranges);
    map->ranges[index] = range;
    map->count++;
    return true;
}

bool range_map_cut(struct range_map *map, uint64_t start, uint64_t end)
{
    size_t index = index_of(map, start);
    if (start >= end || index == map->count)
        return true;
    if (map->ranges[index].start < start) {
        struct range rest = map->ranges[index];
        map->ranges[index].end = start;
        if (rest.end > end) {
            rest.start = end;
            return insert(map, rest);
        }
        index++;
    }
    size_t after = index;
    while (after < map->count && map->ranges[after].end <= end)
        after++;
    if (after < map->count && map->ranges[after].start < end)
        map->ranges[after].start = end;
    memmove(map->ranges + index, map->ranges + after, (map->count - after) * sizeof *map->ranges);
    map->count -= after - index;
    return true;
}

bool range_map_put(struct range_map *map, uint64_t start, uint64_t end, size_t what)
{
    return start >= end ||
           (range_map_cut(map, start, end) && insert(map, (struct range){start, end, what}));
}

struct range *range_map_find(const struct range_map *map, uint64_t address)
{
    size_t index = index_of(map, address);
    return index < map->count && map->ranges[index].start <= address ? &map->ranges[index] : NULL;
}

void range_map_free(struct range_map *map)
{
    free(map->ranges);
}
