/* SPDX-License-Identifier: MIT
 *
 * half_seen_stacks.h: the memory in which a collection saw only the part of a thread's stack that
 * was in use.
 *
 * When the thread has ended, its stack stays mapped: libc keeps it for the next thread, and words
 * stand in it that no collection has seen. They are scanned from then on, as any memory is. But
 * they do not prove that the program has written them since the last collection.
 *
 * Called in a stopped world, by the collection at hand.
 */
#ifndef ALLOTROPE_GC_WORLD_HALF_SEEN_STACKS_H
#define ALLOTROPE_GC_WORLD_HALF_SEEN_STACKS_H

#include <stdbool.h>
#include <stdint.h>

/* Called once. False: without memory. */
bool half_seen_init(void);

/* Around the mappings of a collection. is_complete: all of them were visited; if not, what was
 * known before goes on being so. */
void half_seen_begin(void);
void half_seen_end(bool is_complete);

/* Each mapping between the two calls, in order of address. now: this collection sees but a part of
 * it. Returns whether it or an earlier one does, since the mapping was made. */
bool half_seen_note(uintptr_t start, uintptr_t end, bool now);

#endif
