/* SPDX-License-Identifier: MIT
 *
 * statistics.h: an account of what the program asked for and what that took.
 *
 * Off, it costs nothing: it stands in the route only when ALLOTROPE_STATS is set. On, it counts
 * each call under a lock of its own. What the allocators count by themselves is in
 * allocator.h and pages.h.
 */
#ifndef ALLOTROPE_SHIM_STATISTICS_H
#define ALLOTROPE_SHIM_STATISTICS_H

#include "shim/route.h"

/* Puts the account in front of `inner`; writes to `destination` at exit: "" or "-" is standard
 * error, "%p" in a file's name is the process id, a name that ends in ".json" gets JSON and any
 * other the table. Returns the route through the account. */
struct route statistics_start(const struct configuration *configuration, struct route inner,
                              const char *destination);

/* Writes the table to a descriptor now, with the account if it is kept. */
void statistics_write_table(const struct configuration *configuration, int descriptor);

/* With these the account's lock is free in a forked child, whose account goes on from the
 * parent's. */
void statistics_fork_prepare(void);
void statistics_fork_parent(void);
void statistics_fork_child(void);

#endif
