/* SPDX-License-Identifier: MIT
 *
 * granule_map.h: who owns an address.
 *
 * A two-level table over the 47-bit user address space that maps each 64 KiB granule to a
 * pointer of its owner, or NULL. A pointer that no heap of ours handed out is thus recognised
 * without reading anything near it.
 *
 *   address  | 15 bits: root | 16 bits: leaf | 16 bits: within the granule |
 *
 * The root (256 KiB) is zero pages of the library until touched, and so is the first leaf; a
 * leaf (512 KiB of address space, touched sparsely) serves 4 GiB and is never given back.
 */
#ifndef ALLOTROPE_VM_GRANULE_MAP_H
#define ALLOTROPE_VM_GRANULE_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRANULE_BYTES ((size_t)65536)

enum { GRANULE_MAP_LEAF_BITS = 16, GRANULE_MAP_ROOT_BITS = 15, GRANULE_BITS = 16 };

typedef void *_Atomic granule_map_entry;

/* A map that is all zero is empty. `owners` leads to the owners of the heaps' memory, and knows
 * private memory (private_memory.h). `beside_heaps` knows memory that is ours but no heap's
 * (records, the statistics' tables): no root of a collection. Statistics keep a map of their own.
 */
struct granule_map {
    granule_map_entry *_Atomic root[1 << GRANULE_MAP_ROOT_BITS];
};

extern struct granule_map owners __attribute__((visibility("hidden")));
extern struct granule_map beside_heaps __attribute__((visibility("hidden")));
extern granule_map_entry granule_map_first_leaf[] __attribute__((visibility("hidden")));

/* What is entered for the granule that holds `address`, or NULL. Any thread, no lock. */
static inline void *granule_map_look_up(const struct granule_map *map, const void *address)
{
    uintptr_t root_index = (uintptr_t)address >> (GRANULE_BITS + GRANULE_MAP_LEAF_BITS);
    if (__builtin_expect(root_index >= 1 << GRANULE_MAP_ROOT_BITS, 0))
        return NULL;
    granule_map_entry *leaf = atomic_load_explicit(&map->root[root_index], memory_order_acquire);
    if (__builtin_expect(!leaf, 0))
        return NULL;
    size_t index = ((uintptr_t)address >> GRANULE_BITS) & ((1 << GRANULE_MAP_LEAF_BITS) - 1);
    return atomic_load_explicit(&leaf[index], memory_order_acquire);
}

/* The first address of [start, end), in steps of granules, that the map may know something of;
 * `end` if it knows nothing. Empty leaves are passed in one step. */
static inline uintptr_t granule_map_skip_empty(const struct granule_map *map, uintptr_t start,
                                               uintptr_t end)
{
    const uintptr_t leaf_span = (uintptr_t)1 << (GRANULE_BITS + GRANULE_MAP_LEAF_BITS);
    while (start < end &&
           start >> (GRANULE_BITS + GRANULE_MAP_LEAF_BITS) < 1 << GRANULE_MAP_ROOT_BITS &&
           !atomic_load_explicit(&map->root[start / leaf_span], memory_order_acquire))
        start = (start / leaf_span + 1) * leaf_span;
    return start < end ? start : end;
}

/* Enters `value` for every granule that [start, start + bytes) touches; `start` is a multiple of
 * GRANULE_BYTES. NULL forgets them, which never fails. False: there is no memory for a leaf. A part
 * may have been entered then, and a second call with NULL undoes that. The range must be the
 * caller's own; different ranges may be entered by different threads at once. */
bool granule_map_enter(struct granule_map *map, void *start, size_t bytes, void *value);

/* Maps zero pages, whole granules, and enters `value` for them before anybody can see them. NULL
 * when the kernel refuses, or there is no memory for a leaf. */
void *granule_map_new_pages(struct granule_map *map, size_t bytes, void *value);
/* Forgets pages, and gives them back. */
void granule_map_drop_pages(struct granule_map *map, void *start, size_t bytes);

/* Enters `value` for the granule that holds `address`, unless something is entered. Returns what is
 * entered then; NULL: there is no memory for a leaf. Any thread, no lock. */
void *granule_map_claim(struct granule_map *map, const void *address, void *value);

static inline void *granule_map_get(const void *address)
{
    return granule_map_look_up(&owners, address);
}

/* Whether memory is a heap's, or ours beside the heaps. */
static inline bool granule_map_is_ours(uintptr_t address)
{
    return granule_map_get((const void *)address) ||
           granule_map_look_up(&beside_heaps, (const void *)address);
}

static inline bool granule_map_set(void *start, size_t bytes, void *owner)
{
    return granule_map_enter(&owners, start, bytes, owner);
}

/* Visits every maximal run of granules of the heaps, without private memory, in order of address.
 * Takes time by the extent of the heaps, not of the address space. */
typedef void granule_map_visitor(void *argument, char *start, size_t bytes);
void granule_map_each_run(granule_map_visitor *visit, void *argument);

#endif
