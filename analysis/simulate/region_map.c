/* SPDX-License-Identifier: MIT
 *
 * region_map.c: see region_map.h.
 */
#include "analysis/simulate/region_map.h"

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

/* A mapping that a block comes from is heap from then on. */
static void note_heap(struct region_map *map, uint64_t block)
{
    struct range *range = block != 0 ? range_map_find(&map->classes, block) : NULL;
    if (range && range->what == REGION_OTHER)
        range->what = REGION_HEAP;
}

bool region_map_take(struct region_map *map, const struct trace_event *event)
{
    uint64_t start = event->value[0], end = start + event->value[1];
    switch (event->type) {
    case TRACE_EVENT_MAP:
        map->last = (struct range){0};
        return range_map_put(&map->classes, start, end, class_of(event->value[2]));
    case TRACE_EVENT_UNMAP:
        map->last = (struct range){0};
        return range_map_cut(&map->classes, start, end);
    case TRACE_EVENT_MALLOC:
    case TRACE_EVENT_REALLOC:
        if (region_map_find(map, start) == REGION_OTHER) {
            note_heap(map, start);
            map->last = (struct range){0};
        }
        return true;
    default:
        return true;
    }
}

enum region_class region_map_find_slowly(struct region_map *map, uint64_t address)
{
    const struct range *range = range_map_find(&map->classes, address);
    if (!range)
        return REGION_OTHER;
    map->last = *range;
    return (enum region_class)range->what;
}

void region_map_free(struct region_map *map)
{
    range_map_free(&map->classes);
}

const char *region_class_name(enum region_class class)
{
    static const char *const names[REGION_CLASSES] = {"other", "heap", "static", "stack"};
    return names[class];
}
