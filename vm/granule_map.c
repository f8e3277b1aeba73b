/* SPDX-License-Identifier: MIT
 *
 * granule_map.c: see granule_map.h.
 */
#include "vm/granule_map.h"

#include "vm/pages.h"
#include "vm/private_memory.h"
#include "vm/sanitizer.h"

/* Common symbols come behind all other data, which thus stays together on few pages. */
struct granule_map owners __attribute__((common));
struct granule_map beside_heaps __attribute__((common));

static const size_t LEAF_BYTES = sizeof(granule_map_entry) << GRANULE_MAP_LEAF_BITS;

/* The only leaf of most processes lies in the library, which saves them a mapping. */
granule_map_entry granule_map_first_leaf[1 << GRANULE_MAP_LEAF_BITS] __attribute__((common));
static granule_map_entry *_Atomic spare_leaf = granule_map_first_leaf;

/* Which part of each leaf of `owners` was ever written, for the first few leaves.
 *
 * [entered part] Every granule that was entered lies in the part of its leaf, or more leaves are in
 * use than are noted. Writer: the thread that enters a granule, before it does. A part only grows,
 * so the one that a stopped thread leaves is at worst too wide. */
enum { NOTED_LEAVES = 8 };
static struct entered {
    _Atomic uint32_t leaf;      /* its index in the root; NO_LEAF: free. Changes once */
    _Atomic uint32_t low, high; /* indices in the leaf */
} entered[NOTED_LEAVES] = {[0 ... NOTED_LEAVES - 1] = {.leaf = 1 << GRANULE_MAP_ROOT_BITS,
                                                       .low = 1 << GRANULE_MAP_LEAF_BITS}};
static const uint32_t NO_LEAF = 1 << GRANULE_MAP_ROOT_BITS;
static _Atomic bool more_leaves_than_noted;

/* The entry that notes a leaf of `owners`; a free one is taken for a leaf that has none. NULL: all
 * are taken by other leaves. */
static struct entered *entered_of(uint32_t leaf)
{
    for (struct entered *part = entered; part < entered + NOTED_LEAVES; part++) {
        uint32_t present = atomic_load_explicit(&part->leaf, memory_order_relaxed);
        if (present == leaf ||
            (present == NO_LEAF &&
             (atomic_compare_exchange_strong(&part->leaf, &present, leaf) || present == leaf)))
            return part;
    }
    return NULL;
}

/* From index `low` of the leaf up to `high`. */
static void widen_entered(uint32_t leaf, uint32_t low, uint32_t high)
{
    struct entered *part = entered_of(leaf);
    if (!part) {
        atomic_store_explicit(&more_leaves_than_noted, true, memory_order_relaxed);
        return;
    }
    uint32_t old_low = atomic_load_explicit(&part->low, memory_order_relaxed);
    uint32_t old_high = atomic_load_explicit(&part->high, memory_order_relaxed);
    while (low < old_low && !atomic_compare_exchange_weak(&part->low, &old_low, low))
        ;
    while (high > old_high && !atomic_compare_exchange_weak(&part->high, &old_high, high))
        ;
}

static granule_map_entry *take_leaf(void)
{
    granule_map_entry *leaf = atomic_exchange_explicit(&spare_leaf, NULL, memory_order_relaxed);
    return leaf ? leaf : pages_map(LEAF_BYTES, PAGE_BYTES);
}

static void drop_leaf(granule_map_entry *leaf)
{
    if (leaf == granule_map_first_leaf)
        atomic_store_explicit(&spare_leaf, leaf, memory_order_relaxed);
    else
        pages_unmap(leaf, LEAF_BYTES);
}

static granule_map_entry *leaf_for(struct granule_map *map, uintptr_t address, bool create)
{
    granule_map_entry *_Atomic *slot =
        &map->root[address >> (GRANULE_BITS + GRANULE_MAP_LEAF_BITS)];
    granule_map_entry *leaf = NULL;
    /* While the first leaf is spare the slot is empty as a rule, and written next. To read it by an
     * instruction that also writes saves the fault for reading. Later, a write that changes nothing
     * would copy the page in a forked child. */
    if (create && atomic_load_explicit(&spare_leaf, memory_order_relaxed))
        atomic_compare_exchange_strong_explicit(slot, &leaf, NULL, memory_order_acq_rel,
                                                memory_order_acquire);
    else
        leaf = atomic_load_explicit(slot, memory_order_acquire);
    if (leaf || !create)
        return leaf;
    granule_map_entry *made = take_leaf();
    if (!made)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(slot, &leaf, made, memory_order_acq_rel,
                                                memory_order_acquire))
        return made;
    drop_leaf(made); /* another thread was first */
    return leaf;
}

static size_t leaf_index(uintptr_t address)
{
    return (address >> GRANULE_BITS) & ((1 << GRANULE_MAP_LEAF_BITS) - 1);
}

void *granule_map_claim(struct granule_map *map, const void *address, void *value)
{
    granule_map_entry *leaf = leaf_for(map, (uintptr_t)address, true);
    void *present = NULL;
    if (!leaf)
        return NULL;
    atomic_compare_exchange_strong_explicit(&leaf[leaf_index((uintptr_t)address)], &present, value,
                                            memory_order_acq_rel, memory_order_acquire);
    return present ? present : value;
}

/* Two entries, which one instruction stores. */
typedef uintptr_t entry_pair __attribute__((vector_size(16), may_alias));

/* Enters `value` so many times. A large block has hundreds of entries, so they are stored by pairs,
 * eight entries a turn: that is one instruction an entry. Such a store is no atomic operation of C.
 * But on x86-64 each aligned half of it becomes visible as a whole, and a reader needs no more. The
 * fence keeps the compiler from storing an entry before what it leads to. The processor stores in
 * order. */
static void store_entries(granule_map_entry *entry, size_t count, void *value)
{
    atomic_thread_fence(memory_order_release);
    entry_pair both = {(uintptr_t)value, (uintptr_t)value};
    for (; count > 0 && (uintptr_t)entry % sizeof both != 0; count--)
        atomic_store_explicit(entry++, value, memory_order_relaxed);
    for (; count >= 8 && !UNDER_SANITIZER; count -= 8, entry += 8) {
        entry_pair *pairs = (entry_pair *)(void *)entry;
        pairs[0] = pairs[1] = pairs[2] = pairs[3] = both;
    }
    for (; count > 0; count--)
        atomic_store_explicit(entry++, value, memory_order_relaxed);
}

/* The part of a range that one leaf serves; returns where the part ends. */
static uintptr_t enter_in_leaf(granule_map_entry *leaf, uintptr_t start, uintptr_t end, void *value)
{
    const uintptr_t leaf_span = (uintptr_t)1 << (GRANULE_BITS + GRANULE_MAP_LEAF_BITS);
    uintptr_t leaf_end = round_down(start, leaf_span) + leaf_span;
    uintptr_t part_end = end < leaf_end ? end : leaf_end;
    if (leaf)
        store_entries(&leaf[leaf_index(start)],
                      (part_end - start + GRANULE_BYTES - 1) / GRANULE_BYTES, value);
    return part_end;
}

/* [entered part], for the first leaf of a range that is about to be entered. */
static void note_entered(uintptr_t start, uintptr_t end)
{
    size_t low = leaf_index(start), room = (1 << GRANULE_MAP_LEAF_BITS) - low;
    size_t count = (end - start + GRANULE_BYTES - 1) / GRANULE_BYTES;
    widen_entered((uint32_t)(start >> (GRANULE_BITS + GRANULE_MAP_LEAF_BITS)), (uint32_t)low,
                  (uint32_t)(low + (count < room ? count : room)));
}

bool granule_map_enter(struct granule_map *map, void *start, size_t bytes, void *value)
{
    uintptr_t address = (uintptr_t)start, end = address + bytes;
    while (address < end) {
        granule_map_entry *leaf = leaf_for(map, address, value != NULL);
        if (!leaf && value)
            return false;
        if (map == &owners && value)
            note_entered(address, end);
        address = enter_in_leaf(leaf, address, end, value);
    }
    return true;
}

void *granule_map_new_pages(struct granule_map *map, size_t bytes, void *value)
{
    void *start = pages_map(bytes, GRANULE_BYTES);
    if (!start || granule_map_enter(map, start, bytes, value))
        return start;
    granule_map_drop_pages(map, start, bytes);
    return NULL;
}

void granule_map_drop_pages(struct granule_map *map, void *start, size_t bytes)
{
    granule_map_enter(map, start, bytes, NULL);
    pages_unmap(start, bytes);
}

/* Finds the first leaf at or behind `from` that may have entries, and the part of it to look at.
 * False: there is none. */
static bool next_leaf(uint32_t from, uint32_t *leaf, uint32_t *low, uint32_t *high)
{
    *leaf = NO_LEAF;
    for (const struct entered *part = entered; part < entered + NOTED_LEAVES; part++) {
        uint32_t each = atomic_load(&part->leaf);
        if (each < from || each >= *leaf)
            continue;
        *leaf = each;
        *low = atomic_load(&part->low);
        *high = atomic_load(&part->high);
    }
    if (atomic_load(&more_leaves_than_noted)) {
        *leaf = from;
        *low = 0;
        *high = 1 << GRANULE_MAP_LEAF_BITS;
    }
    return *leaf < NO_LEAF;
}

void granule_map_each_run(granule_map_visitor *visit, void *argument)
{
    char *run = NULL, *end = NULL;
    uint32_t low, high;
    for (uint32_t root = 0; next_leaf(root, &root, &low, &high); root++) { /* [entered part] */
        granule_map_entry *leaf = atomic_load_explicit(&owners.root[root], memory_order_acquire);
        for (uintptr_t index = low; leaf && index < high; index++) {
            const void *owner = atomic_load_explicit(&leaf[index], memory_order_relaxed);
            if (!owner || owner == &private_memory_owner)
                continue;
            char *granule =
                (char *)(((uintptr_t)root << GRANULE_MAP_LEAF_BITS | index) << GRANULE_BITS);
            if (run && granule != end)
                visit(argument, run, (size_t)(end - run));
            if (granule != end)
                run = granule;
            end = granule + GRANULE_BYTES;
        }
    }
    if (run)
        visit(argument, run, (size_t)(end - run));
}
