/* SPDX-License-Identifier: MIT
 *
 * io_uring.h: buffers that are registered with io_uring, of which the kernel alone may have the
 * addresses.
 */
#ifndef ALLOTROPE_VM_KERNEL_IO_URING_H
#define ALLOTROPE_VM_KERNEL_IO_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Visits the address of each registered buffer of the process's rings whose descriptors are open.
 * memory: `bytes` of room for what is read. False: a ring does not tell. The world is stopped. */
bool io_uring_each_buffer(char *memory, size_t bytes, void (*visit)(uintptr_t address));

#endif
