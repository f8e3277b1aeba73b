/* SPDX-License-Identifier: MIT
 *
 * faults.h: the handler of SIGSEGV that tells of guarded blocks, in front of the program's own.
 *
 *     program: sigaction(SIGSEGV, its action)    it is kept here; to the kernel goes our handler,
 *                                                with its flags and mask
 *     a fault                                    ours is called, as its would be: its stack, its
 *                                                mask. Reports an access to a guarded block; then
 *                                                calls the program's handler with the same
 *                                                arguments. Of any other fault, a null pointer's
 *                                                too, nothing is told
 *
 * If the program has no handler, the instruction runs again with the signal blocked: the process
 * ends by the very fault, and a core file has its registers.
 *
 * The program's action is shared. There are two places for it. A writer writes the one that does
 * not count, then lets it count. So a reader waits for nobody, also in the child of _Fork, where
 * the writer may be missing. Writers wait for each other, with their signals blocked, so that no
 * handler interrupts one. A child of _Fork or vfork writes nothing here: its action is the kernel's
 * alone.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_FAULTS_H
#define ALLOTROPE_ALLOC_CHECKED_FAULTS_H

#include <stdbool.h>

#include "vm/kernel_action.h"

/* Reports an access that faulted, if it was to a block between guards. Called in a handler. access:
 * "read"; at: as report_access has it. False: it was to none, or it was only counted. */
typedef bool fault_reporter(const char *access, const void *address, const void *at);

/* Before there is a second thread, after own_memory_init(). */
void faults_init(fault_reporter *report);
/* As struct allocator has fault_action. */
long faults_action(const struct kernel_action *action, struct kernel_action *old);
/* In the child of a fork, after own_memory_forked(): another thread may have been at it. */
void faults_fork_child(void);

#endif
