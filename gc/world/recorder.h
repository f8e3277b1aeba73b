/* SPDX-License-Identifier: MIT
 *
 * recorder.h: the collector when its program's references are being recorded (docs/doorbells.md):
 * which phase it is in, and which memory is the recorder's. Natively each is a test of a word that
 * is always zero, and there are no ranges.
 */
#ifndef ALLOTROPE_GC_WORLD_RECORDER_H
#define ALLOTROPE_GC_WORLD_RECORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "trace/protocol/doorbell.h"

/* Before the first look. False: no memory. */
bool recorder_init(void);

/* Asks for the ranges anew: they grow while the program runs. Needs no memory, so the world may be
 * stopped. False: they are more than can be noted. */
bool recorder_refresh_ranges(void);

/* userfaultfd, where the system call is refused because the recorder does not know it. Returns a
 * descriptor, or an error as the kernel has it. */
long recorder_userfaultfd(long flags);

/* The recorder's ranges, in order of address, until the next look. */
const uint64_t (*recorder_ranges(size_t *count))[2];

#endif
