/* SPDX-License-Identifier: MIT
 *
 * latency.h: how long each call of the allocator takes, as a histogram.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_LATENCY_H
#define ALLOTROPE_SHIM_OBSERVERS_LATENCY_H

#include "shim/route/observer.h"

/* Observes when ALLOTROPE_LATENCY is set, and writes to what it names at exit, as ALLOTROPE_STATS
 * does: "" or "-" is standard error, "%p" the process id, ".json" asks for JSON. What taking the
 * time itself costs is measured at the start, subtracted from every call, and written. */
extern const struct observer latency_observer;

#endif
