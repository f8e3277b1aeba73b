/* SPDX-License-Identifier: MIT */
/* simulate_rounds.h: several simulators fed with one stream of references, on several cores.
 *
 * Work goes in rounds. In each, the next batch is read while every simulator takes the current
 * one; the threads take these jobs one after the other until none is left. So no simulator is
 * bound to a thread, and none needs a lock.
 */
#ifndef ANALYSIS_SIMULATE_ROUNDS_H
#define ANALYSIS_SIMULATE_ROUNDS_H

#include <stdbool.h>

#include "analysis/reference_source.h"

struct simulation {
    bool (*feed)(void *simulator, const struct references *references);
    void *simulator;
    bool failed;
};

enum { SIMULATIONS_MOST = 64 };

struct simulations {
    struct simulation list[SIMULATIONS_MOST];
    size_t count;
    bool with_regions; /* one of them asks what each reference touches */
};

/* Adds one; there is room for every simulator that can be asked for. */
void simulations_add(struct simulations *simulations,
                     bool (*feed)(void *simulator, const struct references *references),
                     void *simulator);

/* Runs until the source ends, `limit` references have been read, or a simulator fails.
 * Returns the number of references simulated, or -1 when memory is short. */
int64_t simulate_rounds(struct reference_source *source, uint64_t limit,
                        struct simulations *simulations, unsigned threads);

#endif
