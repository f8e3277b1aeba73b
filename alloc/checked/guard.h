/* SPDX-License-Identifier: MIT
 *
 * guard.h: `blocks:guard`, which samples allocations; see guard.c.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_GUARD_H
#define ALLOTROPE_ALLOC_CHECKED_GUARD_H

#include "alloc/allocator.h"

extern const struct allocator blocks_guard;

#endif
