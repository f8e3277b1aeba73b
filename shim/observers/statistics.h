/* SPDX-License-Identifier: MIT
 *
 * statistics.h: the observer that counts what the program asks for, and what that takes.
 *
 * It counts each call under a lock of its own. Counters that are always on are the allocators' own
 * (allocator.h, pages.h); the report has them too.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_STATISTICS_H
#define ALLOTROPE_SHIM_OBSERVERS_STATISTICS_H

#include "shim/configuration/configuration.h"
#include "shim/route/observer.h"

/* Observes when ALLOTROPE_STATS is set, and reports to what it names at exit (output_write() says
 * how). A forked child's counts go on from its parent's. */
extern const struct observer statistics_observer;

/* Writes the table to a descriptor now, with this observer's counts if it is on. */
void statistics_write_table(const struct configuration *configuration, int descriptor);

#endif
