/* SPDX-License-Identifier: MIT
 *
 * kernel.h: pointers that the program hands to the kernel, where no collector sees them; see
 * kernel.c.
 */
#ifndef ALLOTROPE_SHIM_SYSTEM_CALLS_KERNEL_H
#define ALLOTROPE_SHIM_SYSTEM_CALLS_KERNEL_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* The kernel has been handed a word: pins the block that it points into, if it does. */
void pin_address(const void *word);

enum {
    LONGEST_MESSAGE = 256,
    PART_OVERLAP = sizeof(void *) - 1,
    MOST_PARTS = 1024, /* UIO_MAXIOV: with more a call fails */
};

/* The following are called before the system call that is given the memory. A failed call has
 * pinned too much, which harms nobody: it lasts until the block is freed. */

/* Copies memory that the program says it has. Returns how many bytes could be read; 0 where
 * nothing need be pinned. */
size_t read_program(void *copy, const void *start, size_t bytes);

/* The kernel is handed bytes that may be a message of pointers between threads, or come back with
 * an answer: pins the blocks that words in them point to, at any offset, if they are few. */
void pin_message(const void *message, size_t bytes);

/* What is known of a message of which one part after the other is looked at: a word may lie across
 * two of them. Begin with `kept` zero. */
struct message_parts {
    size_t kept; /* of the last bytes, at the start */
    char bytes[PART_OVERLAP + LONGEST_MESSAGE];
};

/* As pin_message, of the next part. One of more than LONGEST_MESSAGE bytes is passed over. */
void pin_part(struct message_parts *message, const void *part, size_t bytes);

/* As pin_part, of all parts of a message: of these, or of those that a header lists. */
void pin_parts(const struct iovec *parts, size_t count);
void pin_header(const struct msghdr *header);

/* Pages are about to be made that nobody may touch; see struct allocator. */
void tell_pages_may_fault(void);

/* tell_not_excepted: the memory is about to be unmapped, mapped over, moved or advised otherwise,
 * so it may be excepted from children no longer. tell_moved: memory has been moved here, and may be
 * excepted. Before the program has excepted memory for the first time both do nothing. */
void tell_not_excepted(const void *start, size_t bytes);
void tell_moved(const void *start, size_t bytes);

#endif
