/* SPDX-License-Identifier: MIT
 *
 * faults.h: the handler of SIGSEGV that tells of guarded blocks, in front of the program's own.
 *
 *     program: sigaction(SIGSEGV, its action)    it is kept here; to the kernel goes our handler,
 *                                                with its flags and mask
 *     a fault                                    ours is called, as its would be: its stack, its
 *                                                mask. Reports an access to the pool; then calls
 *                                                the program's handler with the same arguments.
 *                                                Of any other fault, a null pointer's too, nothing
 *                                                is told
 *
 * If the program has no handler, the default action comes back and the instruction runs again: the
 * process ends by the very fault, and a core file has its registers. The program's action is
 * shared. A writer makes the sequence odd while it changes the action, with its signals blocked, so
 * no handler interrupts it. A reader reads again until the sequence is even and has not changed.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_FAULTS_H
#define ALLOTROPE_ALLOC_CHECKED_FAULTS_H

#include "vm/kernel_action.h"

/* Before there is a second thread. */
void faults_init(void);
/* As struct allocator has fault_action. */
long faults_action(const struct kernel_action *action, struct kernel_action *old);
/* In the child of a fork: another thread may have been at it. */
void faults_fork_child(void);

#endif
