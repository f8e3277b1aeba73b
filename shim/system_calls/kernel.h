/* SPDX-License-Identifier: MIT
 *
 * kernel.h: pointers that the program hands to the kernel, where no collector sees them; see
 * kernel.c.
 */
#ifndef ALLOTROPE_SHIM_SYSTEM_CALLS_KERNEL_H
#define ALLOTROPE_SHIM_SYSTEM_CALLS_KERNEL_H

#include <sys/types.h>

/* After a write to a pipe or a socket, which may be a message of pointers between threads: pins the
 * blocks that its words point to, if it is short and of whole words. bytes: what write returned. */
void pin_written(const void *buffer, ssize_t bytes);

#endif
