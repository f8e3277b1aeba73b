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
 * [whole mappings]     The kernel has excepted memory and other memory in different mappings. So
 *                      all of a mapping is excepted, or nothing. One is lent if it is private, has
 *                      no file and no memory of ours, and all whole granules in it are noted.
 * [taken back]         In the stop in which it was lent, and just that. No other thread of the
 *                      program makes a child meanwhile. What the kernel would refuse to take back
 *                      (a sealed mapping) it refuses to except once more before; so that is not
 *                      lent.
 * [of this process]    A child has none of this memory. The kernel clears its notes, also after a
 *                      bare clone() (MADV_WIPEONFORK).
 *
 * Read by the parent all the same: the rest of a range beside its whole granules; a range of more
 * than a quarter of all granules that there is room for; what finds its set of notes full; stacks
 * of threads; all that is excepted while the kernel counts pinned pages of the process, which a
 * device may write, and which a fork would copy (roots.c).
 *
 * What it does not see: memory that is unmapped by a bare system call, without libc, or by libc
 * itself, and other memory in its place that is mapped so, too. Children of the program would lack
 * that, but no stack is lent. And pages that a device writes which the kernel does not count
 * (get_user_pages without FOLL_PIN): after a fork the program's next write moves its page.
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
