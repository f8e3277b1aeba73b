/* SPDX-License-Identifier: MIT
 *
 * kernel_action.h: what a signal does, as the kernel takes it: for handlers of our own, which are
 * installed without libc.
 */
#ifndef ALLOTROPE_VM_KERNEL_ACTION_H
#define ALLOTROPE_VM_KERNEL_ACTION_H

#include <signal.h>
#include <stdint.h>

struct kernel_action {
    void (*handler)(int signal, siginfo_t *info, void *context);
    unsigned long flags; /* KERNEL_RESTORER among them */
    void (*restorer)(void);
    uint64_t mask;
};

enum { KERNEL_RESTORER = 0x04000000, KERNEL_MASK_BYTES = 8 };

/* Where handlers return to. */
void restore_from_signal(void);

/* Either may be NULL. Returns as a system call does. */
long kernel_set_action(int signal, const struct kernel_action *action, struct kernel_action *old);

#endif
