/* SPDX-License-Identifier: MIT
 *
 * sites.h: where the program allocates what it holds, estimated from a sample of its allocations.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_SITES_H
#define ALLOTROPE_SHIM_OBSERVERS_SITES_H

#include "shim/route/observer.h"

/* Observes when ALLOTROPE_SITES names a file ("%p" in it is the process id), which is written at
 * exit: JSON, docs/sites.md. ALLOTROPE_SITES_RATE: a sample every so many bytes on average
 * (1: every allocation, exactly; not set: 16K at first, up to 512K later); ALLOTROPE_SITES_FRAMES:
 * callers kept of each. */
extern const struct observer sites_observer;

#endif
