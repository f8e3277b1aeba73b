/* SPDX-License-Identifier: MIT
 *
 * watch.h: leaks=watch: who asked for the blocks that a collector would have lost.
 */
#ifndef ALLOTROPE_GC_CYCLE_WATCH_H
#define ALLOTROPE_GC_CYCLE_WATCH_H

#include <stdbool.h>
#include <stddef.h>

/* False: without memory; then no site is known. */
bool watch_init(void);

/* A block was handed out to the code at `site`. Any thread. */
void watch_note(const void *block, const void *site);

/* A line for a block that was found dead and is used all the same: one for each site. use: what was
 * done with it, written before its address. Any thread. */
void watch_report(const void *block, size_t bytes, const char *use);

#endif
