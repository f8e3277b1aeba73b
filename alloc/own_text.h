/* SPDX-License-Identifier: MIT
 *
 * own_text.h: the program's return address, for what is said of a misuse of the heap.
 */
#ifndef ALLOTROPE_ALLOC_OWN_TEXT_H
#define ALLOTROPE_ALLOC_OWN_TEXT_H

#include <stdint.h>

/* Where our own code lies; empty in a static program, whose code lies there too. */
extern uintptr_t own_text_start __attribute__((visibility("hidden")));
extern uintptr_t own_text_bytes __attribute__((visibility("hidden")));

/* Finds where our own code lies. Called once, before the first caller_of_frame(). */
void own_text_find(void);

/* The return address in the program of the function that this is inlined in. Functions of the shim
 * may lie between (operator new, an observer). They keep frame pointers, so they are passed
 * over. */
static inline __attribute__((always_inline)) const void *caller_of_frame(void)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    while (__builtin_expect(frame[1] - own_text_start < own_text_bytes, 0))
        frame = (const uintptr_t *)frame[0];
    return (const void *)frame[1];
}

#endif
