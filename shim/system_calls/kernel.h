/* SPDX-License-Identifier: MIT
 *
 * kernel.h: what goes where no collector can see it; see kernel.c.
 */
#ifndef ALLOTROPE_SHIM_SYSTEM_CALLS_KERNEL_H
#define ALLOTROPE_SHIM_SYSTEM_CALLS_KERNEL_H

#include <sys/types.h>

/* What has been written to a pipe or a socket, if it is short enough for a message of pointers:
 * blocks that its words point to are pinned. bytes: what write returned. */
void pin_message(const void *message, ssize_t bytes);

#endif
