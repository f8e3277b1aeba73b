/* SPDX-License-Identifier: MIT
 *
 * area_source.c: see area_source.h.
 */
#include "alloc/area_source.h"

static struct area *area_of(struct page_source *pages)
{
    return &((struct area_source *)((char *)pages - offsetof(struct area_source, pages)))->area;
}

static void *extend(struct page_source *pages, size_t bytes)
{
    return area_extend(area_of(pages), bytes);
}

static bool retract(struct page_source *pages, size_t bytes)
{
    return area_retract(area_of(pages), bytes);
}

static bool segment(struct page_source *pages, size_t index, char **start, char **end)
{
    struct segment found;
    if (!area_segment(area_of(pages), index, &found))
        return false;
    *start = found.start;
    *end = found.end;
    return true;
}

void area_source_init(struct area_source *source, void *owner)
{
    source->pages = (struct page_source){extend, retract, segment};
    area_init(&source->area, owner);
}
