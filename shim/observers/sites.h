/* SPDX-License-Identifier: MIT
 *
 * sites.h: the observer that finds the allocation sites of what the program holds.
 *
 * An allocation site is a stack trace: the return address of a call of malloc, and those of its
 * callers. What each holds is estimated from a sample of the allocations (sampling.h).
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_SITES_H
#define ALLOTROPE_SHIM_OBSERVERS_SITES_H

#include "shim/route/observer.h"

/* Observes when ALLOTROPE_SITES is set, and writes JSON to the file that it names at exit ("%p" in
 * the name is the process id; docs/sites.md). ALLOTROPE_SITES_RATE: a sample every so many bytes on
 * average; 1 samples every allocation. ALLOTROPE_SITES_FRAMES: return addresses kept of each. */
extern const struct observer sites_observer;

#endif
