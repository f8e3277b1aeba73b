/* SPDX-License-Identifier: MIT
 *
 * environment.h: the program's environment before libc is ready.
 */
#ifndef ALLOTROPE_SHIM_CONFIGURATION_ENVIRONMENT_H
#define ALLOTROPE_SHIM_CONFIGURATION_ENVIRONMENT_H

/* The value of a variable, NULL when it is not set, or when the program is privileged (setuid):
 * its environment is somebody else's. Needs nothing of libc that allocates or locks. */
const char *environment_get(const char *name);

/* The last part of the path of the running program; "?" when unknown. Static storage. */
const char *environment_program(void);

#endif
