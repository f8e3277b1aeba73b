/* SPDX-License-Identifier: MIT
 *
 * slices.h: marking beside the program; see slices.c.
 */
#ifndef ALLOTROPE_GC_MARK_SLICES_H
#define ALLOTROPE_GC_MARK_SLICES_H

#include <stddef.h>

/* In a slice, of a block of a page or more: what lies here is to be read by copy. */
void slices_push(const char *start, size_t bytes);

#endif
