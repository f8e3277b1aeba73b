/* SPDX-License-Identifier: MIT
 *
 * series.h: counts by window of time, of which there are at most SERIES_LENGTH however long a
 * program runs: when there would be more, two neighbours become one.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_SERIES_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_SERIES_H

#include <stddef.h>
#include <stdint.h>

enum { SERIES_LENGTH = 1024 };

/* All zero is an empty one. */
struct series {
    unsigned doublings; /* a count is of 2^doublings windows */
    size_t length;      /* counts in use */
    uint64_t counts[SERIES_LENGTH];
};

static inline void series_fold(struct series *series)
{
    for (size_t i = 0; i < SERIES_LENGTH; i++) {
        uint64_t count = series->counts[i];
        series->counts[i] = 0;
        series->counts[i / 2] += count;
    }
    series->length = (series->length + 1) / 2;
    series->doublings++;
}

static inline void series_add(struct series *series, uint32_t window, uint64_t count)
{
    while (window >> series->doublings >= SERIES_LENGTH)
        series_fold(series);
    size_t at = window >> series->doublings;
    series->counts[at] += count;
    series->length = at + 1 > series->length ? at + 1 : series->length;
}

/* Folds until a count is of 2^doublings windows at least. */
static inline void series_fold_to(struct series *series, unsigned doublings)
{
    while (series->doublings < doublings)
        series_fold(series);
}

#endif
