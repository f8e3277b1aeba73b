/* SPDX-License-Identifier: MIT
 *
 * referent.h: from a word to the block that it refers to, and to the block's mark.
 */
#ifndef ALLOTROPE_GC_MARK_REFERENT_H
#define ALLOTROPE_GC_MARK_REFERENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gc/mark/marker.h"
#include "vm/granule_map.h"

/* Sets a live block's mark: [marks only grow]. False: it is set already, or `bit` is 0, which
 * stands for no block (find_referent). */
static inline bool set_mark(struct slab_word *bits, uint64_t bit, bool shared)
{
    if ((bits->mark & bit) == bit)
        return false;
    if (shared)
        return !(__atomic_fetch_or(&bits->mark, bit, __ATOMIC_RELAXED) & bit);
    bits->mark |= bit;
    return true;
}

/* The block that a word refers to. False: there is none. */
static inline bool find_referent(uintptr_t word, struct referent *referent)
{
    struct slab *slab = slab_at((const void *)word);
    if (__builtin_expect(!slab, 0))
        return false;
    bool exact;
    size_t index = slab_index(slab, (const void *)word, &exact);
    referent->bits = &slab->words[index / SLAB_WORD_BLOCKS];
    referent->bit = index < slab->capacity ? slab_bit(index) : 0;
    referent->start = slab_block(slab, index);
    referent->bytes = slab->block_bytes;
    referent->word = word;
    return true;
}

/* In a stopped world the answer stays right: [stopped bits]. In a slice it may be late. */
static inline bool is_live(const struct referent *referent)
{
    const struct slab_word *bits = referent->bits;
    return (~(bits->free | atomic_load_explicit(&bits->remote, memory_order_relaxed)) &
            referent->bit) != 0;
}

#endif
