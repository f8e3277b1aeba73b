/* SPDX-License-Identifier: MIT
 *
 * start.h: chooses and initialises the allocator, before libc is ready.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_START_H
#define ALLOTROPE_SHIM_ROUTE_START_H

#include "shim/configuration/configuration.h"

/* The allocator that ALLOTROPE=next names; NULL in a library that has no route. */
extern const struct allocator *const pass_through;

/* What allocator_needs_sites and allocator_call_stack are set to (alloc/allocator.h). NULL in a
 * library that has no route. */
extern bool (*const route_needs_sites)(void);
extern uint32_t (*const route_call_stack)(uintptr_t rip, uintptr_t rsp, uintptr_t rbp,
                                          const void **sites, uint32_t most);

/* Reads the configuration from ALLOTROPE, initialises its allocator and attaches it to the process.
 * A value that cannot be understood, or no memory at all, ends the process with one line and exit
 * status 2. */
void start_allocator(struct configuration *configuration);

/* Ends the process with this line, before main. */
_Noreturn void stop_before_main(struct message *message);

#endif
