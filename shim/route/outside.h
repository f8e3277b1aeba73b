/* SPDX-License-Identifier: MIT
 *
 * outside.h: looking into the heap from outside, and tuning it, while another thread may fork.
 *
 * These functions take the heap's locks, which fork holds. Their caller may hold a lock of libc's
 * for which fork waits: a stream's write function does. So they must not wait for fork, no more
 * than malloc may ([nobody waits], vm/freeze.h). Each call is an operation, for whose end fork
 * waits. While the heap is frozen nobody looks into it, and tuning is deferred.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_OUTSIDE_H
#define ALLOTROPE_SHIM_ROUTE_OUTSIDE_H

#include "alloc/allocator.h"

/* All zero while another thread forks: nothing is known to be free then. */
void outside_statistics(struct allocator_statistics *statistics);

/* Nothing where the allocator cannot be tuned. */
void outside_tune(enum tuning parameter, size_t value);

#endif
