/* SPDX-License-Identifier: MIT
 *
 * second_allocator.h: jemalloc, tcmalloc or mimalloc in the same process, called by names of their
 * own; see second_allocator.c.
 */
#ifndef ALLOTROPE_SHIM_SYMBOLS_SECOND_ALLOCATOR_H
#define ALLOTROPE_SHIM_SYMBOLS_SECOND_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

/* For a block that is not ours: whether it is the second allocator's, which then resizes it. */
bool second_allocator_realloc(void *block, size_t size, void **result);

#endif
