/* SPDX-License-Identifier: MIT
 *
 * outside.h: looking into the heap from outside, and tuning it, while another thread may fork.
 *
 * What looks in takes the heap's locks, which fork holds. Its caller may hold a lock of libc's, as
 * the write function of a stream does, for which fork waits. So it must not wait for fork, no more
 * than malloc ([nobody-waits], vm/freeze.h). So it is an operation, and fork waits for its end.
 * While the heap is frozen nobody looks in, and tuning is put off.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_OUTSIDE_H
#define ALLOTROPE_SHIM_ROUTE_OUTSIDE_H

#include "alloc/allocator.h"

/* All zero while another thread forks: nothing is known to be free then. */
void outside_statistics(struct allocator_statistics *statistics);

/* Nothing where the allocator cannot be tuned. */
void outside_tune(enum tuning parameter, size_t value);

#endif
