/* SPDX-License-Identifier: MIT
 *
 * publish.h: what `allotrope stats PID` reads in a process that runs.
 *
 * The reader finds the library in /proc/PID/maps and this structure in its data by the magic,
 * then reads the counters where they are anyway. The process does nothing for it and is not
 * stopped: nothing here costs anything. Each counter is a machine word; two of them may be from
 * different moments.
 */
#ifndef ALLOTROPE_SHIM_REPORTS_PUBLISH_H
#define ALLOTROPE_SHIM_REPORTS_PUBLISH_H

#include "shim/configuration/configuration.h"

/* Says which allocator it is. Called once, when it is ready. */
void publish_start(const struct configuration *configuration);

/* Adds a counter; `name` must stay. Beyond the table's room nothing is added. */
void publish_counter(const char *name, const void *counter);

#endif
