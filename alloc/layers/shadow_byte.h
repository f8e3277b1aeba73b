/* SPDX-License-Identifier: MIT
 *
 * shadow_byte.h: what the layers know of a block, in one byte of the window's shadow (shadow
 * memory, as sanitizers have it).
 *
 * There is a byte for every 16 bytes of heap (32 for heaps whose blocks are never closer). A
 * block's byte is the one for the place where its payload starts; all others are zero. So an
 * interior pointer is told from a block, and a freed block from a live one, without touching
 * either. It is a byte and not a bit: threads change neighbouring ones at once, and a byte needs no
 * atomic update.
 *
 *   | live: 1 | odd: 1 | bin: 6 |     odd: starts in the second half of its 32 bytes
 *
 * Zero is everything that is not live: never handed out, freed, or in a thread's cache.
 */
#ifndef ALLOTROPE_ALLOC_LAYERS_SHADOW_BYTE_H
#define ALLOTROPE_ALLOC_LAYERS_SHADOW_BYTE_H

#include "vm/window.h"

enum {
    SHADOW_LIVE = 0x80,
    SHADOW_ODD_SHIFT = 6,
    BINS = 62,       /* bins are 0 to 61 */
    UNBINNED = BINS, /* a block that no bin takes */
    NOT_LIVE = BINS + 1,
};

static inline uint8_t shadow_odd(size_t unit, unsigned shadow_shift)
{
    return shadow_shift > UNIT_SHIFT ? (uint8_t)((unit & 1) << SHADOW_ODD_SHIFT) : 0;
}

static inline uint8_t shadow_live(unsigned bin, size_t unit, unsigned shadow_shift)
{
    return (uint8_t)(SHADOW_LIVE | shadow_odd(unit, shadow_shift) | bin);
}

/* The bin of a live block that starts at this unit, or UNBINNED; above that when none starts
 * there. */
static inline unsigned shadow_bin(uint8_t byte, size_t unit, unsigned shadow_shift)
{
    return byte ^ (unsigned)(SHADOW_LIVE | shadow_odd(unit, shadow_shift));
}

#endif
