/* SPDX-License-Identifier: MIT
 *
 * process.h: tells the allocator when a thread ends and when the process forks.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_PROCESS_H
#define ALLOTROPE_SHIM_ROUTE_PROCESS_H

#include <sys/types.h>

#include "alloc/allocator.h"

/* Called once, when the allocator is initialised and before it serves a call. */
void process_attach(const struct allocator *allocator);

/* Forks by a function that calls no handlers, with the allocator's among them. */
pid_t process_fork(pid_t (*fork_without_handlers)(void));

#endif
