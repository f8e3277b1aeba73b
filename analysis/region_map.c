/* SPDX-License-Identifier: MIT */
/* region_map.c: see region_map.h. A sorted array: programs have some hundred mappings, and most
 * references lie where the last one did. */
#include "analysis/region_map.h"

#include <stdlib.h>
#include <string.h>

static enum region_class class_of(uint64_t kind)
{
    switch (kind) {
    case TRACE_REGION_FILE:
    case TRACE_REGION_DATA:
        return REGION_STATIC;
    case TRACE_REGION_STACK:
        return REGION_STACK;
    default:
        return REGION_OTHER;
    }
}

/* The first region that ends beyond an address. */
static size_t place_of(const struct region_map *map, uint64_t address)
{
    size_t low = 0, high = map->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (map->regions[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert(struct region_map *map, struct region region)
{
    if (map->count == map->capacity) {
        size_t capacity = map->capacity > 0 ? 2 * map->capacity : 256;
        struct region *more = reallocarray(map->regions, capacity, sizeof *more);
        if (more == NULL)
            return false;
        map->regions = more;
        map->capacity = capacity;
    }
    size_t place = place_of(map, region.start);
    memmove(map->regions + place + 1, map->regions + place,
            (map->count - place) * sizeof *map->regions);
    map->regions[place] = region;
    map->count++;
    return true;
}

static bool cut_out(struct region_map *map, uint64_t start, uint64_t end)
{
    size_t place = place_of(map, start);
    if (place < map->count && map->regions[place].start < start) {
        struct region rest = map->regions[place];
        map->regions[place].end = start;
        if (rest.end > end) {
            rest.start = end;
            return insert(map, rest);
        }
        place++;
    }
    size_t after = place;
    while (after < map->count && map->regions[after].end <= end)
        after++;
    if (after < map->count && map->regions[after].start < end)
        map->regions[after].start = end;
    memmove(map->regions + place, map->regions + after,
            (map->count - after) * sizeof *map->regions);
    map->count -= after - place;
    return true;
}

bool region_map_take(struct region_map *map, const struct trace_event *event)
{
    const uint64_t start = event->value[0];
    switch (event->type) {
    case TRACE_EVENT_MAP:
    case TRACE_EVENT_UNMAP:
        map->last = (struct region){0, 0, REGION_OTHER};
        if (event->value[1] == 0)
            return true;
        return cut_out(map, start, start + event->value[1]) &&
               (event->type == TRACE_EVENT_UNMAP ||
                insert(map,
                       (struct region){start, start + event->value[1], class_of(event->value[2])}));
    case TRACE_EVENT_MALLOC:
    case TRACE_EVENT_REALLOC:
        if (start != 0 && region_map_find(map, start) == REGION_OTHER) {
            size_t place = place_of(map, start);
            if (place < map->count && map->regions[place].start <= start)
                map->regions[place].class = REGION_HEAP;
            map->last = (struct region){0, 0, REGION_OTHER};
        }
        return true;
    default:
        return true;
    }
}

enum region_class region_map_find_slowly(struct region_map *map, uint64_t address)
{
    size_t place = place_of(map, address);
    if (place == map->count || map->regions[place].start > address)
        return REGION_OTHER;
    map->last = map->regions[place];
    return map->last.class;
}

void region_map_free(struct region_map *map)
{
    free(map->regions);
}

const char *region_class_name(enum region_class class)
{
    static const char *const names[REGION_CLASSES] = {"other", "heap", "static", "stack"};
    return names[class];
}
