/* SPDX-License-Identifier: MIT
 *
 * foreign.h: foreign blocks, which another heap handed out: ld.so's before ours was there, or a
 * malloc of the program's own.
 */
#ifndef ALLOTROPE_SHIM_SYMBOLS_FOREIGN_H
#define ALLOTROPE_SHIM_SYMBOLS_FOREIGN_H

#include <stddef.h>

/* Returns a block of ours of `size` bytes, with the contents of a foreign block whose size nobody
 * knows: as many of these bytes as can be read. The old block is left alone. The call is reported,
 * like a foreign free. Size 0: returns NULL. Without memory: NULL and ENOMEM, as realloc. A block
 * of a second allocator (second_allocator.h) is resized by that, without a report. */
void *foreign_realloc(void *block, size_t size);

#endif
