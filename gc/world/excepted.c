/* SPDX-License-Identifier: MIT
 *
 * excepted.c: see excepted.h.
 *
 * The notes: a table of sets of granules' numbers. A number lies anywhere in the set that it hashes
 * to, so one is added and removed by a single atomic write, and no thread ever waits for another.
 * V8's pages are strewn over the whole address space: a map by address would have a leaf for each.
 */
#include "gc/world/excepted.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/private_memory.h"
#include "vm/syscall.h"

enum { SET_BITS = 12, SETS = 1 << SET_BITS, SLOTS_OF_SET = 16, SLOTS = SETS * SLOTS_OF_SET };
enum { MOST_LENT = 1 << 14 };

struct range {
    uintptr_t start, end;
};

/* In one piece of memory; the notes of a child are wiped, what is lent it needs. */
struct excepted {
    _Atomic uint32_t noted[SETS][SLOTS_OF_SET]; /* 0: none */
    struct range lent[MOST_LENT];               /* in order of address */
};
static struct excepted *excepted; /* NULL: nothing is noted */
static _Atomic bool is_any;
static size_t lent_count;

/* [of this process] */
void excepted_init(void)
{
    struct excepted *made = private_memory_map(sizeof *made);
    if (made &&
        syscall_failed(SYSCALL_3(SYS_madvise, made->noted, sizeof made->noted, MADV_WIPEONFORK))) {
        private_memory_unmap(made, sizeof *made);
        made = NULL;
    }
    excepted = made;
}

bool excepted_is_any(void)
{
    return atomic_load_explicit(&is_any, memory_order_relaxed);
}

static _Atomic uint32_t *set_of(uint32_t granule)
{
    return excepted->noted[granule * UINT32_C(0x9E3779B1) >> (32 - SET_BITS)];
}

static bool is_noted(uint32_t granule)
{
    const _Atomic uint32_t *set = set_of(granule);
    for (size_t i = 0; i < SLOTS_OF_SET; i++)
        if (atomic_load_explicit(&set[i], memory_order_relaxed) == granule)
            return true;
    return false;
}

static void note(uint32_t granule)
{
    _Atomic uint32_t *set = set_of(granule);
    bool is_done = is_noted(granule);
    for (size_t i = 0; i < SLOTS_OF_SET && !is_done; i++) {
        uint32_t found = 0;
        is_done = atomic_compare_exchange_strong(&set[i], &found, granule);
    }
}

static void forget_slot(_Atomic uint32_t *slot, uint32_t first, uint32_t end)
{
    uint32_t found = atomic_load_explicit(slot, memory_order_relaxed);
    if (found >= first && found < end)
        atomic_compare_exchange_strong(slot, &found, 0);
}

/* Two threads may have noted a granule at once, in two slots. */
static void forget(uint32_t granule)
{
    _Atomic uint32_t *set = set_of(granule);
    for (size_t i = 0; i < SLOTS_OF_SET; i++)
        forget_slot(&set[i], granule, granule + 1);
}

static void forget_between(uint32_t first, uint32_t end)
{
    for (size_t set = 0; set < SETS; set++)
        for (size_t i = 0; i < SLOTS_OF_SET; i++)
            forget_slot(&excepted->noted[set][i], first, end);
}

/* Beyond it no granule is noted. */
static const uintptr_t HIGHEST = (uintptr_t)1 << 47;

/* [noted is excepted]: what is noted here was excepted before. */
void excepted_note(const void *start, size_t bytes)
{
    uintptr_t from = (uintptr_t)start, to = from + bytes;
    if (!excepted || to < from || to > HIGHEST)
        return;
    from = round_up(from, GRANULE_BYTES) / GRANULE_BYTES;
    to = to / GRANULE_BYTES;
    if (from >= to || to - from > SLOTS / 4)
        return;
    atomic_store_explicit(&is_any, true, memory_order_relaxed);
    for (; from < to; from++)
        note((uint32_t)from);
}

void excepted_forget(const void *start, size_t bytes)
{
    uintptr_t from = (uintptr_t)start, to = from + bytes;
    if (!excepted || from >= HIGHEST)
        return;
    if (to < from || to > HIGHEST)
        to = HIGHEST;
    uint32_t at = (uint32_t)(from / GRANULE_BYTES);
    uint32_t end = (uint32_t)(round_up(to, GRANULE_BYTES) / GRANULE_BYTES);
    if (end - at > SETS)
        forget_between(at, end);
    else
        for (; at < end; at++)
            forget(at);
}

/* [whole mappings] Shared memory has a name. */
bool excepted_may_be_lent(const struct mapping *mapping)
{
    uintptr_t at = round_up(mapping->start, GRANULE_BYTES);
    uintptr_t end = round_down(mapping->end, GRANULE_BYTES);
    bool is_anonymous = mapping->name_length == 0 || mapping_name_begins(mapping, "[anon:");
    if (!excepted || !is_anonymous || at >= end || granule_map_is_ours(mapping->start) ||
        granule_map_is_ours(mapping->end - 1))
        return false;
    while (at < end && is_noted((uint32_t)(at / GRANULE_BYTES)) && !granule_map_is_ours(at))
        at += GRANULE_BYTES;
    return at == end;
}

static bool advise(uintptr_t start, uintptr_t end, int advice)
{
    return !syscall_failed(SYSCALL_3(SYS_madvise, start, end - start, advice));
}

/* [taken back] */
void excepted_lend(const struct mapping *mapping)
{
    if (lent_count < MOST_LENT && advise(mapping->start, mapping->end, MADV_DONTFORK) &&
        advise(mapping->start, mapping->end, MADV_DOFORK))
        excepted->lent[lent_count++] = (struct range){mapping->start, mapping->end};
}

void excepted_take_back(void)
{
    for (size_t i = 0; i < lent_count; i++)
        advise(excepted->lent[i].start, excepted->lent[i].end, MADV_DONTFORK);
    lent_count = 0;
}

bool excepted_is_lent(const struct mapping *mapping)
{
    size_t low = 0, high = lent_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (excepted->lent[middle].end <= mapping->start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < lent_count && excepted->lent[low].start <= mapping->start;
}
