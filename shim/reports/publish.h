/* SPDX-License-Identifier: MIT
 *
 * publish.h: lists the counters that `allotrope stats PID` reads in a running process.
 *
 * The list (trace/protocol/counters.h) holds names and addresses. The reader finds it in a section
 * of its own, and reads the counters where they lie, through /proc/PID/mem. The process does
 * nothing for that and is not stopped. Each counter is a machine word; two of them may be of
 * different moments.
 */
#ifndef ALLOTROPE_SHIM_REPORTS_PUBLISH_H
#define ALLOTROPE_SHIM_REPORTS_PUBLISH_H

#include "shim/configuration/configuration.h"

/* Lists the allocator, its preset, the counters of every allocator and those of this one, and makes
 * the list valid. Called once, when the allocator is ready. */
void publish_start(const struct configuration *configuration);

/* Adds a counter; MOST_COUNTERS are listed, further ones are not. name: is copied. */
void publish_counter(const char *name, const void *counter);

#endif
