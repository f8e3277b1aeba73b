/* SPDX-License-Identifier: MIT
 *
 * statistics.h: an account of what the program asked for and what that took.
 *
 * Off, it costs nothing: it stands in the route only when ALLOTROPE_STATS is set. On, it counts
 * each call under a lock of its own. What the allocators count by themselves is in
 * allocator.h and pages.h.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_STATISTICS_H
#define ALLOTROPE_SHIM_OBSERVERS_STATISTICS_H

#include "shim/configuration/configuration.h"
#include "shim/route/observer.h"

/* Observes when ALLOTROPE_STATS is set, and writes to what it names at exit: "" or "-" is standard
 * error, "%p" in a file's name is the process id, a name that ends in ".json" gets JSON and any
 * other the table. A forked child's account goes on from the parent's. */
extern const struct observer statistics_observer;

/* Writes the table to a descriptor now, with the account if it is kept. */
void statistics_write_table(const struct configuration *configuration, int descriptor);

#endif
