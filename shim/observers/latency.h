/* SPDX-License-Identifier: MIT
 *
 * latency.h: the observer that measures how long each call of the allocator takes.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_LATENCY_H
#define ALLOTROPE_SHIM_OBSERVERS_LATENCY_H

#include "shim/route/observer.h"

/* Observes when ALLOTROPE_LATENCY is set. At exit it writes to the file that the variable names, as
 * ALLOTROPE_STATS does: "" or "-" is standard error, "%p" the process id, ".json" asks for JSON.
 * The cost of the measurement itself is measured at the start, subtracted from every call, and
 * reported. */
extern const struct observer latency_observer;

#endif
