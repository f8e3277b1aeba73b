/* SPDX-License-Identifier: MIT
 *
 * own_memory.h: whose memory this is: the process's own, a copy of its parent's, or lent.
 *
 *     child of            memory      is told   its locks
 *     fork                a copy      yes       free: own_memory_forked makes the memory its own
 *     _Fork, by number    a copy      no        other threads may have held them, and are not there
 *     vfork               its         no        those of its parent
 *                         parent's
 *
 * A child that is not told is known by its process number. The kernel is asked to wipe a byte in
 * any child that gets a copy. If it cannot, a copy is taken for lent memory.
 */
#ifndef ALLOTROPE_VM_OWN_MEMORY_H
#define ALLOTROPE_VM_OWN_MEMORY_H

#include <stdbool.h>

/* Once, before there is a second thread. page: private memory, of nobody else, for good. Before
 * that the memory is neither a copy nor lent, and not known as the process's own either. */
void own_memory_init(char *page);
/* In the child of libc's fork. */
void own_memory_forked(void);

/* Asks the kernel for the process's number. */
bool memory_is_own(void);
bool memory_is_lent(void);
/* No system call. */
bool memory_is_copy(void);

#endif
