/* SPDX-License-Identifier: MIT
 *
 * next.h: the allocator that would have served the program without us.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_NEXT_H
#define ALLOTROPE_SHIM_ROUTE_NEXT_H

#include "alloc/allocator.h"

/* The malloc that comes after ours in the order of search: that of a library preloaded behind this
 * one, or glibc's. Chosen by ALLOTROPE=next, so that observers see what foreign allocators do. It
 * is not one of `allocators`: there is nothing to compare in it. */
extern const struct allocator next_allocator;

#endif
