/* SPDX-License-Identifier: MIT
 *
 * slow.h: where malloc and free go on when the fast paths cannot; see slow.c.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_SLOW_H
#define ALLOTROPE_ALLOC_BLOCKS_SLOW_H

#include <stddef.h>

void *alloc_slowly(size_t size);
void free_slowly(void *block);

#endif
