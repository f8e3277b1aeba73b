/* SPDX-License-Identifier: MIT
 *
 * half_seen_stacks.c: see half_seen_stacks.h.
 *
 * There are two lists in order of address: that of the last collection, and that of the collection
 * at hand, made from the mappings as they come. A mapping that overlaps an entry of the old list is
 * entered into the new one. Memory that is no longer mapped is thereby forgotten.
 */
#include "gc/world/half_seen_stacks.h"

#include <stddef.h>

#include "vm/private_memory.h"

enum { MOST = 16384 };

struct range {
    uintptr_t start, end;
};

struct ranges {
    struct range *all;
    size_t count;
    bool are_too_many; /* then every mapping counts as one of them */
};

static struct {
    struct ranges before, now;
    size_t next; /* the first of `before` that does not lie below the mapping at hand */
} half_seen;

bool half_seen_init(void)
{
    struct range *both = private_memory_map(2 * MOST * sizeof *both);
    half_seen.before.all = both;
    half_seen.now.all = both + MOST;
    return both != NULL;
}

void half_seen_begin(void)
{
    half_seen.now.count = half_seen.next = 0;
    half_seen.now.are_too_many = half_seen.before.are_too_many;
}

void half_seen_end(bool is_complete)
{
    if (!is_complete)
        return;
    struct ranges before = half_seen.before;
    half_seen.before = half_seen.now;
    half_seen.now = before;
}

static void add(struct ranges *ranges, uintptr_t start, uintptr_t end)
{
    if (ranges->count == MOST)
        ranges->are_too_many = true;
    else
        ranges->all[ranges->count++] = (struct range){start, end};
}

bool half_seen_note(uintptr_t start, uintptr_t end, bool now)
{
    const struct ranges *before = &half_seen.before;
    while (half_seen.next < before->count && before->all[half_seen.next].end <= start)
        half_seen.next++;
    bool was = half_seen.next < before->count && before->all[half_seen.next].start < end;
    if (now || was)
        add(&half_seen.now, start, end);
    return now || was || half_seen.now.are_too_many;
}
