/* SPDX-License-Identifier: MIT
 *
 * area.c: see area.h.
 */
#include "vm/area.h"

#include <stdint.h>
#include <sys/resource.h>

#include "vm/pagemap.h"
#include "vm/pages.h"
#include "vm/syscall.h"

/* A reservation takes no more than this share of RLIMIT_AS, so that what an area has reserved
 * and not used is small beside what the program may have. */
enum { LIMIT_SHARE = 64 };

/* Commits ahead of the break by an eighth of what is in use, so that system calls stay rare
 * while a heap grows; beyond 64 MiB at once it saves nothing more. */
enum { COMMIT_SHARE = 8 };
static const size_t COMMIT_MAX = (size_t)64 << 20;

void area_init(struct area *area, void *owner, size_t reserve_bytes)
{
    *area = (struct area){.owner = owner, .reserve_bytes = reserve_bytes};
}

static size_t reservation_allowed(size_t wanted)
{
    struct rlimit limit;
    if (syscall_failed(SYSCALL_4(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit)) ||
        limit.rlim_cur == RLIM_INFINITY)
        return wanted;
    size_t share = round_down(limit.rlim_cur / LIMIT_SHARE, GRANULE_BYTES);
    return share < wanted ? share : wanted;
}

/* Remembers the current segment before another takes its place. */
static bool finish_segment(struct area *area)
{
    if (!area->base)
        return true;
    if (!area->segments) {
        area->segments =
            pages_map(round_up(AREA_SEGMENTS * sizeof(struct segment), PAGE_BYTES), PAGE_BYTES);
        if (!area->segments)
            return false;
    }
    if (area->segment_count == AREA_SEGMENTS)
        return false;
    area->segments[area->segment_count++] = (struct segment){area->base, area->brk};
    return true;
}

static bool continue_behind(struct area *area, size_t bytes)
{
    if (!area->limit || !pages_reserve_at(area->limit, bytes))
        return false;
    area->limit += bytes;
    return true;
}

static bool begin_segment(struct area *area, size_t bytes)
{
    char *start = pages_reserve(bytes, GRANULE_BYTES);
    if (!start)
        return false;
    if (!finish_segment(area)) {
        pages_unmap(start, bytes);
        return false;
    }
    if (area->committed < area->limit)
        pages_unmap(area->committed, (size_t)(area->limit - area->committed));
    area->base = area->brk = area->committed = start;
    area->limit = start + bytes;
    return true;
}

/* Makes room for `bytes` between break and limit, halving what it reserves as it is refused. */
static bool reserve_more(struct area *area, size_t bytes)
{
    size_t behind = bytes - (size_t)(area->limit - area->brk);
    size_t least = round_up(bytes, GRANULE_BYTES);
    size_t wanted = reservation_allowed(area->reserve_bytes);
    for (; wanted > least; wanted = round_down(wanted / 2, GRANULE_BYTES)) {
        if (continue_behind(area, wanted) || begin_segment(area, wanted))
            return true;
    }
    return continue_behind(area, round_up(behind, GRANULE_BYTES)) || begin_segment(area, least);
}

static bool commit_to(struct area *area, char *end)
{
    size_t ahead = (size_t)(end - area->base) / COMMIT_SHARE;
    if (ahead > COMMIT_MAX)
        ahead = COMMIT_MAX;
    char *least = (char *)round_up((uintptr_t)end, GRANULE_BYTES);
    char *most = (char *)round_up((uintptr_t)end + ahead, GRANULE_BYTES);
    if (most > area->limit)
        most = area->limit;
    size_t bytes = (size_t)(most - area->committed);
    if (!pages_commit(area->committed, bytes)) {
        bytes = (size_t)(least - area->committed);
        if (!pages_commit(area->committed, bytes))
            return false;
    }
    if (!pagemap_set(area->committed, bytes, area->owner))
        return false;
    area->committed += bytes;
    return true;
}

void *area_extend(struct area *area, size_t bytes)
{
    if (bytes > (size_t)PTRDIFF_MAX)
        return NULL;
    if (bytes > (size_t)(area->limit - area->brk) && !reserve_more(area, bytes))
        return NULL;
    char *start = area->brk;
    if (start + bytes > area->committed && !commit_to(area, start + bytes))
        return NULL;
    area->brk = start + bytes;
    account_mapped((ptrdiff_t)bytes);
    return start;
}

bool area_retract(struct area *area, size_t bytes)
{
    if (bytes > (size_t)(area->brk - area->base))
        return false;
    char *old_pages_end = (char *)round_up((uintptr_t)area->brk, PAGE_BYTES);
    area->brk -= bytes;
    char *pages_end = (char *)round_up((uintptr_t)area->brk, PAGE_BYTES);
    if (pages_end < old_pages_end)
        pages_discard(pages_end, (size_t)(old_pages_end - pages_end));
    account_mapped(-(ptrdiff_t)bytes);
    return true;
}

bool area_segment(const struct area *area, size_t index, struct segment *segment)
{
    if (index < area->segment_count)
        *segment = area->segments[index];
    else if (index == area->segment_count && area->base)
        *segment = (struct segment){area->base, area->brk};
    else
        return false;
    return true;
}
