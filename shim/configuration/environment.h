/* SPDX-License-Identifier: MIT
 *
 * environment.h: the program's environment and name, before libc is ready.
 *
 * Nothing here allocates or locks.
 */
#ifndef ALLOTROPE_SHIM_CONFIGURATION_ENVIRONMENT_H
#define ALLOTROPE_SHIM_CONFIGURATION_ENVIRONMENT_H

#include <stddef.h>

/* The value of a variable. NULL when it is not set, and always in a privileged (setuid) program,
 * whose environment was made by whoever runs it. */
const char *environment_get(const char *name);

/* The path of the running program, cut to the room; "" when it is unknown. room: at least 1. */
void environment_program_path(char *path, size_t room);

/* What was executed, without its folders: a link and a script go by their own names, not by that of
 * the file or interpreter behind them. "?" when it is unknown. */
const char *environment_program(void);

#endif
