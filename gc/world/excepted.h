/* SPDX-License-Identifier: MIT
 *
 * excepted.h: memory that the program has excepted from its children (MADV_DONTFORK), lent to the
 * child of a snapshot (snapshot.h).
 *
 * V8 excepts all of its heap. Without this the parent reads it while the world is stopped
 * (roots.h).
 *
 *     program      after MADV_DONTFORK: the granules (64 KiB) of the range are noted
 *                  before munmap, mremap, mmap over it, MADV_DOFORK, MADV_WIPEONFORK, and after
 *                  mmap: the granules of the range are forgotten
 *     stop         lend: MADV_DOFORK; the child is made; take back: MADV_DONTFORK
 *
 * Invariants
 * [noted is excepted]  What is noted is excepted: it is noted after the call that excepts it, and
 *                      forgotten before any call that ends this.
 * [whole mappings]     The kernel never has excepted memory and other memory in one mapping. So a
 *                      mapping is excepted as a whole, or not at all. It is lent if it is private,
 *                      has no file and no memory of ours, and all whole granules in it are noted.
 * [taken back]         Exactly what was lent is taken back, in the same stop: so no other thread of
 *                      the program makes a child meanwhile. Before a mapping is lent it is excepted
 *                      once more. If the kernel refuses that (a sealed mapping), it would refuse to
 *                      take the mapping back, so the mapping is not lent.
 * [of this process]    A child of the program does not have this memory. So the kernel clears the
 *                      notes in a child (MADV_WIPEONFORK), even after a bare clone().
 *
 * The parent still reads some excepted memory itself: what a range has beside its whole granules; a
 * range with more granules than a quarter of the room for notes; granules whose set of notes is
 * full; stacks of threads. It reads all of it while the kernel counts pinned pages of the process:
 * a device may write these, and a fork would copy them (roots.c).
 *
 * What it does not see: (1) Noted memory is unmapped by a bare system call, or by libc itself, and
 * other memory is mapped in its place in the same way. The program's children may then lack the new
 * memory. (No stack of a thread is lent.) (2) A device writes pages that the kernel does not count
 * (get_user_pages without FOLL_PIN). After a fork the program's next write moves it to another page
 * than the device's.
 */
#ifndef ALLOTROPE_GC_WORLD_EXCEPTED_H
#define ALLOTROPE_GC_WORLD_EXCEPTED_H

#include <stdbool.h>
#include <stddef.h>

#include "vm/kernel/maps.h"

/* Once, before there is a second thread, where snapshots will be made. Else nothing is noted. */
void excepted_init(void);

/* Any thread; signal handlers; a vfork child. start: any address. They make no system call. */
void excepted_note(const void *start, size_t bytes);
void excepted_forget(const void *start, size_t bytes);

/* Whether anything was ever noted. */
bool excepted_is_any(void);

/* The world is stopped. One mapping after the other in order of address, each as the kernel lists
 * it now. A mapping is lent only if it may be; the kernel can refuse. */
bool excepted_may_be_lent(const struct mapping *mapping);
void excepted_lend(const struct mapping *mapping);
void excepted_take_back(void);
/* Between the two; in the child of a snapshot, too. */
bool excepted_is_lent(const struct mapping *mapping);

#endif
