/* SPDX-License-Identifier: MIT
 *
 * utilisation.h: how little the program ran in its worst moment.
 *
 * Many short pauses in a row hold a program up like a long one. The minimum mutator utilisation of
 * a window of w nanoseconds is the least share of any w nanoseconds in a row in which the world was
 * not stopped (Cheng & Blelloch, PLDI 2001). Here its complement is kept, the longest time for
 * which the world stood within such a window.
 *
 * The worst window can always be moved until it ends where a stop ends: no later place has more of
 * a stop in it. So each stop is asked once, when it is over.
 */
#ifndef ALLOTROPE_GC_WORLD_UTILISATION_H
#define ALLOTROPE_GC_WORLD_UTILISATION_H

#include <stdint.h>

#include "alloc/allocator.h"

enum { UTILISATION_WINDOWS = 3 };

/* 1, 10 and 100 milliseconds. */
extern const uint64_t utilisation_windows_ns[UTILISATION_WINDOWS];

/* So many stops are remembered: all of the longest window, unless they come more often than every
 * 25 us. Of those that do the oldest do not count, and the figure is too low. */
enum { UTILISATION_STOPS = 4096 };

/* Zero at first. Its times may look like pointers, so it lies where no root is looked for. */
struct utilisation {
    uint64_t longest_ns[UTILISATION_WINDOWS]; /* for which the world stood within a window */
    uint64_t count;                           /* of stops, ever */
    struct {
        uint64_t begun_ns, ended_ns;
    } stops[UTILISATION_STOPS]; /* by their number; a new one takes the place of the oldest */
};

/* A stop is over. Stops are told in their order and do not overlap. [one collection] */
void utilisation_add(struct utilisation *utilisation, uint64_t begun_ns, uint64_t ended_ns);

/* Tells a figure for each window, none if NULL. */
void utilisation_visit(const struct utilisation *utilisation, statistic_visitor *visit,
                       void *argument);

#endif
