/* SPDX-License-Identifier: MIT
 *
 * doorbells.h: the observer that tells the recorder when the program is in the allocator.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_DOORBELLS_H
#define ALLOTROPE_SHIM_OBSERVERS_DOORBELLS_H

#include "shim/route/observer.h"

/* Observes when ALLOTROPE_DOORBELLS is set and not "0", and a recorder listens. `allotrope record`
 * sets it. */
extern const struct observer doorbells_observer;

#endif
