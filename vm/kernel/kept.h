/* SPDX-License-Identifier: MIT
 *
 * kept.h: a descriptor that stays open in a process whose program knows nothing of it.
 *
 * The program may close every descriptor, and may open its own under the same number. So what the
 * descriptor is open on is noted, and asked again before each use.
 */
#ifndef ALLOTROPE_VM_KERNEL_KEPT_H
#define ALLOTROPE_VM_KERNEL_KEPT_H

#include <stdbool.h>
#include <sys/types.h>

struct kept {
    int descriptor; /* negative: none */
    dev_t device;
    ino_t inode;
};

/* Keeps what a system call has opened, under a high number if the limit allows one. False: the call
 * had failed, or the kernel does not tell what is open; nothing is open then. */
bool kept_take(struct kept *kept, long opened);
bool kept_is_open(const struct kept *kept);
/* Closes it, unless the program has. */
void kept_drop(struct kept *kept);

#endif
