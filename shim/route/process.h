/* SPDX-License-Identifier: MIT
 *
 * process.h: what an allocator must hear of the process it lives in: a thread's end, fork.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_PROCESS_H
#define ALLOTROPE_SHIM_ROUTE_PROCESS_H

#include "alloc/allocator.h"

/* Called once, when the choice is settled and before the allocator is used. */
void process_attach(const struct allocator *allocator);

#endif
