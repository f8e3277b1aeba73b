/* SPDX-License-Identifier: MIT
 *
 * gc.h: `gc`: the heap of blocks.h with a conservative collector.
 */
#ifndef ALLOTROPE_GC_CYCLE_GC_H
#define ALLOTROPE_GC_CYCLE_GC_H

#include "alloc/allocator.h"

extern const struct allocator gc_default;

#endif
