/* SPDX-License-Identifier: MIT
 *
 * sample.h: a simulator that follows a sample, and beside it one that follows everything, over the
 * first references: what the two differ by is the sample's error.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SAMPLE_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/simulate/simulators/reference.h"
#include "trace/base/json.h"

/* Difference between a sample and the exact result, as shares of all touches. */
struct sample_error {
    uint64_t references; /* over which both were run */
    uint64_t compared;   /* results that were compared */
    double mean, largest;
};

/* Notes one difference between estimate and exact count. */
void sample_error_add(struct sample_error *error, double estimate, double exact, double touches);
/* The member "error" of the object that is open: null where nothing was compared. */
void put_sample_error(struct json *json, const struct sample_error *error);

/* What is fed to either. */
struct sample {
    bool (*feed)(void *simulator, const struct references *references);
    /* Called when the exact one has had its references; frees it. False when memory is short. */
    bool (*compare)(void *job);
    void *job;
    void *sampled; /* the simulator, also where all is simulated and nothing compared */
    void *exact;   /* NULL when nothing is sampled, or once compared */
    uint64_t left; /* references until they are compared */
    struct sample_error error;
};

/* For simulations_add, with a struct sample as the simulator. Returns false when one of its own or
 * the comparison fails. */
bool sample_feed(void *argument, const struct references *references);

#endif
