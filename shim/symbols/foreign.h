/* SPDX-License-Identifier: MIT
 *
 * foreign.h: foreign blocks, which another heap handed out: ld.so's before ours was there, or a
 * malloc of the program's own.
 */
#ifndef ALLOTROPE_SHIM_SYMBOLS_FOREIGN_H
#define ALLOTROPE_SHIM_SYMBOLS_FOREIGN_H

#include <stddef.h>

/* A block of ours with the contents of a block whose size nobody knows: as much as was asked for
 * and can be read. The old one is left where it is. Reported like a foreign free. NULL and
 * ENOMEM as realloc. */
void *foreign_realloc(void *block, size_t size);

#endif
