/* SPDX-License-Identifier: MIT
 *
 * touches_state.h: what the two ways share in which references become touches.
 *
 *     touches.c           one reference at a time: every case
 *     touches_avx512.c    eight at a time, in the ordinary case
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_TOUCHES_STATE_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_TOUCHES_STATE_H

#include "analysis/simulate/simulators/touches.h"

/* Converts while the largest reference would still fit in `room`. Otherwise as touches_take(). */
size_t touches_take_scalar(struct touch_source *source, const struct references *references,
                           size_t *position, uint64_t *touches, size_t room);

/* As touches_take(). */
size_t touches_take_avx512(struct touch_source *source, const struct references *references,
                           size_t *position, uint64_t *touches);

#endif
