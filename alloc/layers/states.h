/* SPDX-License-Identifier: MIT
 *
 * states.h: what a block's shadow byte says under the policy in force; see shadow_byte.h.
 */
#ifndef ALLOTROPE_ALLOC_LAYERS_STATES_H
#define ALLOTROPE_ALLOC_LAYERS_STATES_H

#include "alloc/layers/registry.h"

static inline uint8_t *shadow_of(const void *block)
{
    return window_shadow(window_unit(block), registry.policy->shadow_shift);
}

/* The bin of a live block, UNBINNED, or NOT_LIVE. */
static inline unsigned bin_of_block(const void *block)
{
    size_t unit = window_unit(block);
    if (!window_holds(unit))
        return NOT_LIVE;
    unsigned bin = shadow_bin(*shadow_of(block), unit, registry.policy->shadow_shift);
    return bin <= UNBINNED ? bin : NOT_LIVE;
}

static inline bool is_live(const void *block)
{
    return bin_of_block(block) != NOT_LIVE;
}

static inline void set_live(const void *block, unsigned bin)
{
    *shadow_of(block) = shadow_live(bin, window_unit(block), registry.policy->shadow_shift);
}

#endif
