/* SPDX-License-Identifier: MIT
 *
 * excepted.h: memory that the program has excepted from its children (MADV_DONTFORK), lent to the
 * child of a snapshot (snapshot.h).
 *
 * V8 excepts all of its heap. Without this the parent reads it while the world is stopped
 * (roots.h).
 *
 *     program      before MADV_DONTFORK: the granules (64 KiB) of the range are noted
 *                  before munmap, mremap, mmap over it, MADV_DOFORK, MADV_WIPEONFORK, and after
 *                  mmap: the granules of the range are forgotten
 *     stop         lend: MADV_DOFORK; the child is made; take back: MADV_DONTFORK
 *
 * Invariants
 * [noted is excepted]  What is noted is excepted, or is about to be: it is noted before the call
 *                      that excepts it, and forgotten before any call that ends this. If a thread
 *                      is stopped between note and call, the collector may except the memory first.
 * [whole mappings]     The kernel has excepted memory and other memory in different mappings. So
 *                      all of a mapping is excepted, or nothing. One is lent if it is private, has
 *                      no file and no memory of ours, and all whole granules in it are noted.
 * [taken back]         In the stop in which it was lent, and just that. No other thread of the
 *                      program makes a child meanwhile.
 * [of this process]    A child has none of this memory. The kernel clears its notes, also after a
 *                      bare clone() (MADV_WIPEONFORK).
 *
 * What is not noted is read by the parent: the rest of a range beside its whole granules; a range
 * of more than a quarter of all granules there are notes for; what finds its set of notes full.
 *
 * What it does not see: memory that is unmapped by a bare system call, without libc, and other
 * memory in its place that is mapped in this way, too. Children of the program would lack that.
 */
#ifndef ALLOTROPE_GC_WORLD_EXCEPTED_H
#define ALLOTROPE_GC_WORLD_EXCEPTED_H

#include <stdbool.h>
#include <stddef.h>

#include "vm/kernel/maps.h"

/* Any thread; signal handlers; a vfork child. start: any address. */
void excepted_note(const void *start, size_t bytes);
void excepted_forget(const void *start, size_t bytes);

/* The world is stopped, and these are all mappings there are. */
void excepted_lend(const struct mapping *mappings, size_t count);
void excepted_take_back(void);
/* Between the two; in the child of a snapshot, too. */
bool excepted_is_lent(const struct mapping *mapping);

#endif
