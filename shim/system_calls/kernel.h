/* SPDX-License-Identifier: MIT
 *
 * kernel.h: pointers that the program hands to the kernel, where no collector sees them; see
 * kernel.c.
 */
#ifndef ALLOTROPE_SHIM_SYSTEM_CALLS_KERNEL_H
#define ALLOTROPE_SHIM_SYSTEM_CALLS_KERNEL_H

#include <sys/types.h>
#include <sys/uio.h>

/* The kernel has been handed a word: pins the block that it points into, if it does. */
void pin(const void *word);

/* The kernel has taken bytes that may be a message of pointers between threads, or come back with
 * an answer: pins the blocks that words in them point to, at any offset, if they are few. bytes:
 * what the call has returned; of a failure nothing is pinned. */
void pin_message(const void *message, ssize_t bytes);

/* The same of a message in parts, each of which may be a message. */
void pin_parts(const struct iovec *parts, size_t count, ssize_t bytes);

/* Pages are about to be made that nobody may touch; see struct allocator. */
void tell_pages_may_fault(void);

#endif
