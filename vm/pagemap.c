/* SPDX-License-Identifier: MIT
 *
 * pagemap.c: see pagemap.h.
 */
#include "vm/pagemap.h"

#include "vm/pages.h"

/* Common symbols come behind all other data, which thus stays together on few pages. */
struct pagemap owners __attribute__((common));
struct pagemap beside_heaps __attribute__((common));

static const size_t LEAF_BYTES = sizeof(pagemap_entry) << PAGEMAP_LEAF_BITS;

/* The only leaf of most processes lies in the library, which saves them a mapping. */
pagemap_entry pagemap_first_leaf[1 << PAGEMAP_LEAF_BITS] __attribute__((common));
static pagemap_entry *_Atomic spare_leaf = pagemap_first_leaf;

static pagemap_entry *take_leaf(void)
{
    pagemap_entry *leaf = atomic_exchange_explicit(&spare_leaf, NULL, memory_order_relaxed);
    return leaf ? leaf : pages_map(LEAF_BYTES, PAGE_BYTES);
}

static void drop_leaf(pagemap_entry *leaf)
{
    if (leaf == pagemap_first_leaf)
        atomic_store_explicit(&spare_leaf, leaf, memory_order_relaxed);
    else
        pages_unmap(leaf, LEAF_BYTES);
}

static pagemap_entry *leaf_for(struct pagemap *map, uintptr_t address, bool create)
{
    pagemap_entry *_Atomic *slot = &map->root[address >> (GRANULE_BITS + PAGEMAP_LEAF_BITS)];
    pagemap_entry *leaf = NULL;
    if (create) /* it may be written next: one access for writing saves the fault for reading */
        atomic_compare_exchange_strong_explicit(slot, &leaf, NULL, memory_order_acq_rel,
                                                memory_order_acquire);
    else
        leaf = atomic_load_explicit(slot, memory_order_acquire);
    if (leaf || !create)
        return leaf;
    pagemap_entry *made = take_leaf();
    if (!made)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(slot, &leaf, made, memory_order_acq_rel,
                                                memory_order_acquire))
        return made;
    drop_leaf(made); /* another thread was first */
    return leaf;
}

bool pagemap_enter(struct pagemap *map, void *start, size_t bytes, void *value)
{
    for (uintptr_t address = (uintptr_t)start; address < (uintptr_t)start + bytes;
         address += GRANULE_BYTES) {
        pagemap_entry *leaf = leaf_for(map, address, value != NULL);
        size_t index = (address >> GRANULE_BITS) & ((1 << PAGEMAP_LEAF_BITS) - 1);
        if (leaf)
            atomic_store_explicit(&leaf[index], value, memory_order_release);
        else if (value)
            return false;
    }
    return true;
}

void pagemap_each_run(pagemap_visitor *visit, void *argument)
{
    char *run = NULL, *end = NULL;
    for (uintptr_t root = 0; root < 1 << PAGEMAP_ROOT_BITS; root++) {
        pagemap_entry *leaf = atomic_load_explicit(&owners.root[root], memory_order_acquire);
        for (uintptr_t index = 0; leaf && index < 1 << PAGEMAP_LEAF_BITS; index++) {
            if (!atomic_load_explicit(&leaf[index], memory_order_relaxed))
                continue;
            char *granule = (char *)((root << PAGEMAP_LEAF_BITS | index) << GRANULE_BITS);
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
