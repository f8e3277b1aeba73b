/* SPDX-License-Identifier: MIT
 *
 * window.h: one range of addresses in which all heaps grow, with a shadow.
 *
 *       shadow: a byte for every 2^s bytes        window
 *   | ........................ |              | used ........ | free address space .... |
 *   base - WINDOW_BYTES / 16                  base            used                base + 1 TiB
 *
 * Areas take their memory from the front of the window, so a pointer lies in some heap exactly
 * when it lies in the used part: one comparison. And what is to be known of a block at once is
 * found in the shadow by a shift and an addition, without reading anything near the block.
 * Nothing is reserved beforehand: pages are mapped at fixed addresses as they are needed, so
 * limits and overcommit see what is used and no more.
 *
 * The base lies between 2112 and 3136 GiB (window.c says why there), and takes its lower bits from
 * where the kernel has placed libraries: it is as random as the kernel makes those, and repeatable
 * where they are. Under a sanitizer it lies elsewhere, and always at the same place (window.c).
 */
#ifndef ALLOTROPE_VM_WINDOW_H
#define ALLOTROPE_VM_WINDOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WINDOW_BYTES ((size_t)1 << 40)
/* Everything is taken in multiples of this. */
#define WINDOW_STEP ((size_t)128 << 10)

/* Positions in the window are counted in units of 16 bytes, the alignment of blocks. */
enum { UNIT_SHIFT = 4 };

extern struct window {
    uintptr_t base;
    uint8_t *shadow;
    _Atomic size_t used_units;
    unsigned shadow_shift; /* 0: no shadow */
} window __attribute__((visibility("hidden")));

/* Called once, before anything else here. shadow_shift: 4 or 5 for a byte for every one or two
 * units, 7 for a bit for every unit; 0: no shadow. */
void window_init(unsigned shadow_shift);

/* Takes `bytes`, a multiple of WINDOW_STEP: readable, writable, zero. Usually adjoins what was
 * taken before. NULL when the kernel refuses. Any thread; takes window_lock. */
void *window_take(size_t bytes);

/* Whether nothing was taken and something else lies where the window begins, as the shadow of an
 * address sanitizer does. */
bool window_is_occupied(void);

/* Bytes from the window's base to the end of what was taken, what was passed over included. */
static inline size_t window_used_bytes(void)
{
    return atomic_load_explicit(&window.used_units, memory_order_relaxed) << UNIT_SHIFT;
}

/* The unit that begins at an address. Rotated, not shifted: for an address that is not the start
 * of a unit, or outside the used part, the number is one that window_holds refuses. */
static inline size_t window_unit(const void *address)
{
    size_t offset = (uintptr_t)address - window.base;
    return offset >> UNIT_SHIFT | offset << (64 - UNIT_SHIFT);
}

static inline bool window_holds(size_t unit)
{
    return unit < atomic_load_explicit(&window.used_units, memory_order_acquire);
}

/* The shadow byte of a unit that the window holds. */
static inline uint8_t *window_shadow(size_t unit, unsigned shadow_shift)
{
    return window.shadow + (unit >> (shadow_shift - UNIT_SHIFT));
}

#endif
