/* SPDX-License-Identifier: MIT
 *
 * area.c: see area.h.
 */
#include "vm/area.h"

#include <stdint.h>
#include <string.h>

#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/private_memory.h"
#include "vm/window.h"

/* An extent is an eighth of what is in use, so system calls stay rare while a heap grows. Extents
 * below EXTENT_LEAST would save little memory, extents above EXTENT_MOST no more calls. But each
 * may begin a segment where areas grow in turn. At a 64th of what is in use the segments suffice
 * for any heap. */
enum { EXTENT_SHARE = 8, LARGE_EXTENT_SHARE = 64 };
static const size_t EXTENT_LEAST = (size_t)1 << 20, EXTENT_MOST = (size_t)64 << 20;

/* For the fields that area_segment reads. The holder of a block may read them without the heap's
 * lock while another thread grows the area, so each is read and written as a whole. The holder does
 * not mind which values it meets. */
#define publish(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELEASE)
#define observe(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

void area_init(struct area *area, void *owner)
{
    *area = (struct area){.owner = owner};
}

/* Remembers the current segment before another takes its place. */
static bool finish_segment(struct area *area)
{
    if (!area->base)
        return true;
    if (!area->segments) {
        /* No root of a collection: a segment's start is the address of a block. */
        publish(area->segments, private_memory_map(AREA_SEGMENTS * sizeof(struct segment)));
        if (!area->segments)
            return false;
    }
    struct segment *finished = &area->segments[area->segment_count];
    publish(finished->start, area->base);
    publish(finished->end, area->brk);
    publish(area->segment_count, area->segment_count + 1);
    return true;
}

/* Adds an extent of the window to the area. False: it cannot be entered. It is then lost to the
 * area, which does no harm. */
static bool add_extent(struct area *area, char *extent, size_t bytes)
{
    if (!granule_map_set(extent, bytes, area->owner))
        return false;
    if (extent != area->limit) {
        if (!finish_segment(area))
            return false;
        publish(area->base, extent);
        publish(area->brk, extent);
        area->stale_end = NULL;
    }
    area->limit = extent + bytes;
    return true;
}

/* Takes an extent, the wanted size or by halves no less than `least`. */
static bool take_extent(struct area *area, size_t wanted, size_t least)
{
    if (area->segment_count == AREA_SEGMENTS)
        return false;
    for (;;) {
        char *extent = window_take(wanted);
        if (extent)
            return add_extent(area, extent, wanted);
        if (wanted == least)
            return false;
        wanted = round_down(wanted / 2, WINDOW_STEP);
        if (wanted < least)
            wanted = least;
    }
}

/* What the area holds, and the part of the shadow that goes with it: the bytes before and after a
 * change. */
static void account(size_t before, size_t after)
{
    account_areas((ptrdiff_t)(after - before));
    if (window.shadow_shift > 0)
        account_metadata((ptrdiff_t)(after >> window.shadow_shift) -
                         (ptrdiff_t)(before >> window.shadow_shift));
}

static bool make_room(struct area *area, size_t bytes)
{
    size_t wanted = area->bytes / EXTENT_SHARE;
    if (wanted < EXTENT_LEAST)
        wanted = EXTENT_LEAST;
    if (wanted > EXTENT_MOST)
        wanted = area->bytes / LARGE_EXTENT_SHARE > EXTENT_MOST ? area->bytes / LARGE_EXTENT_SHARE
                                                                : EXTENT_MOST;
    /* An extent that adjoins adds to the room there is; one that does not must hold it all. */
    while ((size_t)(area->limit - area->brk) < bytes) {
        size_t least = round_up(bytes - (size_t)(area->limit - area->brk), WINDOW_STEP);
        if (area->held ||
            !take_extent(area, round_up(wanted > least ? wanted : least, WINDOW_STEP), least))
            return false;
    }
    return true;
}

void *area_extend(struct area *area, size_t bytes)
{
    if (bytes > WINDOW_BYTES || !make_room(area, bytes))
        return NULL;
    char *start = area->brk;
    if (start < area->stale_end)
        memset(start, 0,
               bytes < (size_t)(area->stale_end - start) ? bytes
                                                         : (size_t)(area->stale_end - start));
    publish(area->brk, start + bytes);
    area->bytes += bytes;
    account(area->bytes - bytes, area->bytes);
    return start;
}

bool area_retract(struct area *area, size_t bytes)
{
    if (bytes > (size_t)(area->brk - area->base))
        return false;
    char *end = area->brk - bytes;
    char *old_pages_end = (char *)round_up((uintptr_t)area->brk, PAGE_BYTES);
    char *pages_end = (char *)round_up((uintptr_t)end, PAGE_BYTES);
    if (pages_end < old_pages_end &&
        !pages_discard(pages_end, (size_t)(old_pages_end - pages_end)) &&
        area->stale_end < old_pages_end)
        area->stale_end = old_pages_end;
    publish(area->brk, end);
    area->bytes -= bytes;
    account(area->bytes + bytes, area->bytes);
    return true;
}

bool area_segment(const struct area *area, size_t index, struct segment *segment)
{
    size_t finished = observe(area->segment_count);
    if (index < finished) {
        const struct segment *found = &observe(area->segments)[index];
        *segment = (struct segment){observe(found->start), observe(found->end)};
        return true;
    }
    *segment = (struct segment){observe(area->base), observe(area->brk)};
    return index == finished && segment->start;
}
