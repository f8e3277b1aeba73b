/* SPDX-License-Identifier: MIT
 *
 * doorbells.h: the observer that tells a recorder of the allocator's work.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_DOORBELLS_H
#define ALLOTROPE_SHIM_OBSERVERS_DOORBELLS_H

#include "shim/route/observer.h"

/* Observes when ALLOTROPE_DOORBELLS is set and not "0", as recording sets it, and a recorder
 * listens. */
extern const struct observer doorbells_observer;

#endif
