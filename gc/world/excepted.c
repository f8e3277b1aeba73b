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
static struct excepted *_Atomic excepted;
static size_t lent_count;

static struct excepted *make(void)
{
    struct excepted *made = private_memory_map(sizeof *made), *other = NULL;
    if (made && syscall_failed(SYSCALL_3(SYS_madvise, made->noted, sizeof made->noted,
                                         MADV_WIPEONFORK))) { /* [of this process] */
        private_memory_unmap(made, sizeof *made);
        return NULL;
    }
    if (!made || atomic_compare_exchange_strong(&excepted, &other, made))
        return made;
    private_memory_unmap(made, sizeof *made);
    return other;
}

static _Atomic uint32_t *set_of(struct excepted *known, uint32_t granule)
{
    return known->noted[granule * UINT32_C(0x9E3779B1) >> (32 - SET_BITS)];
}

static void note(struct excepted *known, uint32_t granule)
{
    _Atomic uint32_t *set = set_of(known, granule);
    for (size_t i = 0; i < SLOTS_OF_SET; i++) {
        uint32_t found = 0;
        if (atomic_compare_exchange_strong(&set[i], &found, granule) || found == granule)
            return;
    }
}

static bool is_noted(struct excepted *known, uint32_t granule)
{
    const _Atomic uint32_t *set = set_of(known, granule);
    for (size_t i = 0; i < SLOTS_OF_SET; i++)
        if (atomic_load_explicit(&set[i], memory_order_relaxed) == granule)
            return true;
    return false;
}

/* Two threads may have noted it at once, in two slots. */
static void forget(struct excepted *known, uint32_t granule)
{
    _Atomic uint32_t *set = set_of(known, granule);
    for (size_t i = 0; i < SLOTS_OF_SET; i++) {
        uint32_t found = granule;
        atomic_compare_exchange_strong(&set[i], &found, 0);
    }
}

static void forget_between(struct excepted *known, uint32_t first, uint32_t end)
{
    for (size_t set = 0; set < SETS; set++)
        for (size_t i = 0; i < SLOTS_OF_SET; i++) {
            uint32_t found = atomic_load_explicit(&known->noted[set][i], memory_order_relaxed);
            if (found >= first && found < end)
                atomic_compare_exchange_strong(&known->noted[set][i], &found, 0);
        }
}

/* Numbers of granules. False: none, or of no address that a program can have. */
static bool granules_of(const void *start, size_t bytes, uint32_t *first, uint32_t *end,
                        bool touched)
{
    uintptr_t from = (uintptr_t)start, to = from + bytes;
    if (to > UINT64_C(1) << 47)
        return false;
    from = touched ? round_down(from, GRANULE_BYTES) : round_up(from, GRANULE_BYTES);
    to = touched ? round_up(to, GRANULE_BYTES) : round_down(to, GRANULE_BYTES);
    *first = (uint32_t)(from / GRANULE_BYTES);
    *end = (uint32_t)(to / GRANULE_BYTES);
    return from < to;
}

/* From a page's start, or the kernel refuses. */
void excepted_note(const void *start, size_t bytes)
{
    uint32_t at, end;
    if ((uintptr_t)start % PAGE_BYTES != 0 || !granules_of(start, bytes, &at, &end, false) ||
        end - at > SLOTS / 4)
        return;
    struct excepted *known = atomic_load(&excepted);
    if (!known)
        known = make();
    for (; known && at < end; at++)
        note(known, at);
}

void excepted_forget(const void *start, size_t bytes)
{
    struct excepted *known = atomic_load(&excepted);
    uint32_t at, end;
    if (!known || !granules_of(start, bytes, &at, &end, true))
        return;
    if (end - at > SETS)
        forget_between(known, at, end);
    else
        for (; at < end; at++)
            forget(known, at);
}

static bool is_ours(uintptr_t address)
{
    return granule_map_get((const void *)address) ||
           granule_map_look_up(&beside_heaps, (const void *)address);
}

/* [whole mappings] Shared memory has a name. */
static bool may_be_lent(struct excepted *known, const struct mapping *mapping)
{
    uintptr_t at = round_up(mapping->start, GRANULE_BYTES);
    uintptr_t end = round_down(mapping->end, GRANULE_BYTES);
    bool is_anonymous = mapping->name_length == 0 || mapping_name_begins(mapping, "[anon:");
    if (!is_anonymous || at >= end || is_ours(mapping->start) || is_ours(mapping->end - 1))
        return false;
    while (at < end && is_noted(known, (uint32_t)(at / GRANULE_BYTES)) && !is_ours(at))
        at += GRANULE_BYTES;
    return at == end;
}

static bool advise(uintptr_t start, uintptr_t end, int advice)
{
    return !syscall_failed(SYSCALL_3(SYS_madvise, start, end - start, advice));
}

void excepted_lend(const struct mapping *mappings, size_t count)
{
    struct excepted *known = atomic_load(&excepted);
    lent_count = 0;
    for (size_t i = 0; known && i < count && lent_count < MOST_LENT; i++)
        if (may_be_lent(known, &mappings[i]) &&
            advise(mappings[i].start, mappings[i].end, MADV_DOFORK))
            known->lent[lent_count++] = (struct range){mappings[i].start, mappings[i].end};
}

void excepted_take_back(void)
{
    const struct excepted *known = atomic_load(&excepted);
    for (size_t i = 0; i < lent_count; i++)
        advise(known->lent[i].start, known->lent[i].end, MADV_DONTFORK);
    lent_count = 0;
}

bool excepted_is_lent(const struct mapping *mapping)
{
    const struct excepted *known = atomic_load(&excepted);
    size_t low = 0, high = lent_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (known->lent[middle].end <= mapping->start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < lent_count && known->lent[low].start <= mapping->start;
}
