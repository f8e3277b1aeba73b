/* SPDX-License-Identifier: MIT
 *
 * range_map.c: see range_map.h.
 */
#include "trace/base/range_map.h"

#include <stdlib.h>
#include <string.h>

/* The first range that ends beyond an address. */
static size_t place_of(const struct range_map *map, uint64_t address)
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
    if (map->count == map->capacity) {
        size_t capacity = map->capacity > 0 ? 2 * map->capacity : 256;
        struct range *more = reallocarray(map->ranges, capacity, sizeof *more);
        if (!more)
            return false;
        map->ranges = more;
        map->capacity = capacity;
    }
    size_t place = place_of(map, range.start);
    memmove(map->ranges + place + 1, map->ranges + place,
            (map->count - place) * sizeof *map->ranges);
    map->ranges[place] = range;
    map->count++;
    return true;
}

bool range_map_cut(struct range_map *map, uint64_t start, uint64_t end)
{
    size_t place = place_of(map, start);
    if (start >= end || place == map->count)
        return true;
    if (map->ranges[place].start < start) {
        struct range rest = map->ranges[place];
        map->ranges[place].end = start;
        if (rest.end > end) {
            rest.start = end;
            return insert(map, rest);
        }
        place++;
    }
    size_t after = place;
    while (after < map->count && map->ranges[after].end <= end)
        after++;
    if (after < map->count && map->ranges[after].start < end)
        map->ranges[after].start = end;
    memmove(map->ranges + place, map->ranges + after, (map->count - after) * sizeof *map->ranges);
    map->count -= after - place;
    return true;
}

bool range_map_put(struct range_map *map, uint64_t start, uint64_t end, size_t what)
{
    return start >= end ||
           (range_map_cut(map, start, end) && insert(map, (struct range){start, end, what}));
}

struct range *range_map_find(const struct range_map *map, uint64_t address)
{
    size_t place = place_of(map, address);
    return place < map->count && map->ranges[place].start <= address ? &map->ranges[place] : NULL;
}

void range_map_free(struct range_map *map)
{
    free(map->ranges);
}
