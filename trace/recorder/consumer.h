/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * consumer.h: the process at the other end of the ring.
 */
#ifndef ALLOTROPE_TRACE_RECORDER_CONSUMER_H
#define ALLOTROPE_TRACE_RECORDER_CONSUMER_H

#include "pub_tool_basics.h"

/* Maps the ring that the options name, or makes one. */
void consumer_map_ring(void);

/* Makes a ring, at `where` if that is not 0, and starts a consumer for it: a grandchild, since a
 * child would be found by the program's own wait. */
void consumer_start(Addr where);

#endif
