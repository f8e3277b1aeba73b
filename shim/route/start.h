/* SPDX-License-Identifier: MIT
 *
 * start.h: from the environment to an allocator that is ready, before libc is.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_START_H
#define ALLOTROPE_SHIM_ROUTE_START_H

#include "shim/configuration/configuration.h"

/* What "next" means; NULL in a library that has no route. */
extern const struct allocator *const pass_through;

/* Reads ALLOTROPE, initialises what it names and attaches it to the process. A value that cannot
 * be understood, or no memory at all, ends the process with one line and exit status 2. */
void start_allocator(struct configuration *configuration);

/* Ends the process with a line, before main. */
_Noreturn void stop_before_main(struct message *message);

#endif
