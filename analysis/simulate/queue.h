/* SPDX-License-Identifier: MIT
 *
 * queue.h: several simulators fed with one stream of references, on several cores.
 *
 * Batches of references stand in a short queue; each simulator goes through it at its own pace,
 * and whoever is free takes the one that is furthest behind, or reads the next batch. No simulator
 * is bound to a thread, none is worked on by two at once, and none waits for the others until the
 * queue is full.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_QUEUE_H
#define ALLOTROPE_ANALYSIS_SIMULATE_QUEUE_H

#include <stdbool.h>

#include "analysis/simulate/reference_source.h"

struct simulation {
    bool (*feed)(void *simulator, const struct references *references);
    void *simulator;
    bool failed;
    bool busy;     /* somebody works on it */
    uint64_t next; /* batch that it takes */
};

/* One simulator for each size of pages, and one for each shape. For each size of blocks and for
 * each of the TLBs there are an LRU stack and 8 groups of sets. */
enum { SIMULATIONS_MOST = 16 + 2 * 16 * 9 + 16 };

struct simulations {
    struct simulation list[SIMULATIONS_MOST];
    size_t count;
    bool with_regions; /* one of them asks what each reference touches */
    bool with_windows; /* one of them asks when it happened */
};

/* Adds one; there is room for every simulator that can be asked for. */
void simulations_add(struct simulations *simulations,
                     bool (*feed)(void *simulator, const struct references *references),
                     void *simulator);

/* Runs until the source ends, `limit` references have been read, or a simulator fails.
 * Returns the number of references simulated, or -1 when memory is short. */
int64_t simulate_all(struct reference_source *source, uint64_t limit,
                     struct simulations *simulations, unsigned threads);

#endif
