/* SPDX-License-Identifier: MIT
 *
 * unwind.h: from a frame of the stack to its caller's, quickly and often.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_UNWIND_H
#define ALLOTROPE_SHIM_OBSERVERS_UNWIND_H

#include <stdint.h>

/* Where a function stands that has called another: the address it will return to, and the stack
 * pointer and rbp as they will be there. */
struct frame {
    uintptr_t address, stack, base;
};

/* The return addresses from `frame` up, its own first, at most `most`. places, unless NULL: of each
 * but the first, how far from frame.stack it lies. 0: some frame is of a kind that is left to
 * libgcc. Any thread, signal handlers too; no allocation, no lock. */
uint32_t unwind(struct frame frame, const void **addresses, uint32_t *places, uint32_t most);

#endif
