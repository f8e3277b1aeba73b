/* SPDX-License-Identifier: MIT
 *
 * next.h: the pass-through allocator: it hands each call to the malloc that would have served the
 * program without us.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_NEXT_H
#define ALLOTROPE_SHIM_ROUTE_NEXT_H

#include "alloc/allocator.h"

/* That malloc is the next one in ld.so's order of search: of a library preloaded behind this one,
 * or glibc's. ALLOTROPE=next chooses it, so that observers see what foreign allocators do. It is
 * not one of `allocators`: there is nothing of ours in it to compare. */
extern const struct allocator next_allocator;

#endif
