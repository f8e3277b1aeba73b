/* SPDX-License-Identifier: MIT
 *
 * unwind.h: the return addresses on the stack, found quickly and often.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_UNWIND_H
#define ALLOTROPE_SHIM_OBSERVERS_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/* A frame of the stack: the values that these registers will have when the frame's current call
 * returns. */
struct unwind_frame {
    uintptr_t rip, rsp, rbp;
};

/* Fills `return_addresses`, which has room for `most`, with those of `frame` and its callers,
 * innermost first: frame.rip is the first. offsets, unless NULL: of each but the first, how many
 * bytes above frame.rsp it lies on the stack. Returns how many. *is_whole: these are `most`, or
 * all; otherwise the next frame is of a kind that is left to libgcc. Any thread, signal handlers
 * too; no allocation, no lock. */
uint32_t unwind(struct unwind_frame frame, const void **return_addresses, uint32_t *offsets,
                uint32_t most, bool *is_whole);

#endif
