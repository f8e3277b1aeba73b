/* SPDX-License-Identifier: MIT
 *
 * pagemap.c: see pagemap.h.
 */
#include "vm/pagemap.h"

#include "vm/pages.h"

pagemap_entry *_Atomic pagemap_root[1 << PAGEMAP_ROOT_BITS];

static const size_t LEAF_BYTES = sizeof(pagemap_entry) << PAGEMAP_LEAF_BITS;

static pagemap_entry *leaf_for(uintptr_t address, bool create)
{
    pagemap_entry *_Atomic *slot = &pagemap_root[address >> (GRANULE_BITS + PAGEMAP_LEAF_BITS)];
    pagemap_entry *leaf = atomic_load_explicit(slot, memory_order_acquire);
    if (leaf || !create)
        return leaf;
    pagemap_entry *made = pages_map(LEAF_BYTES, PAGE_BYTES);
    if (!made)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(slot, &leaf, made, memory_order_acq_rel,
                                                memory_order_acquire))
        return made;
    pages_unmap(made, LEAF_BYTES); /* another thread was first */
    return leaf;
}

bool pagemap_set(void *start, size_t bytes, void *owner)
{
    for (uintptr_t address = (uintptr_t)start; address < (uintptr_t)start + bytes;
         address += GRANULE_BYTES) {
        pagemap_entry *leaf = leaf_for(address, owner != NULL);
        size_t index = (address >> GRANULE_BITS) & ((1 << PAGEMAP_LEAF_BITS) - 1);
        if (leaf)
            atomic_store_explicit(&leaf[index], owner, memory_order_release);
        else if (owner)
            return false;
    }
    return true;
}
