/* SPDX-License-Identifier: MIT */
/* simulate_options.h: what is asked of allotrope-simulate. */
#ifndef ANALYSIS_SIMULATE_OPTIONS_H
#define ANALYSIS_SIMULATE_OPTIONS_H

#include <stdbool.h>

#include "analysis/simulators/caches.h"
#include "analysis/simulators/shapes.h"

enum { SIMULATE_SIZES = 16, SIMULATE_SHAPES = 16 };

struct simulate_options {
    const char *path;
    uint64_t count; /* references at most */
    unsigned threads;
    uint64_t error_over;            /* references over which a sample is held against the whole */
    uint64_t sizes[SIMULATE_SIZES]; /* of pages or of blocks, in bytes */
    size_t size_count;
    bool sampled;
    /* Caches only. */
    unsigned slices; /* of CACHES_SLICES, when sampled */
    unsigned ways;
    bool causes;
    struct shape shapes[SIMULATE_SHAPES];
    size_t shape_count;
    bool straddles_once; /* in shapes */
};

#endif
