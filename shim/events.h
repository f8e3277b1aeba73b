/* SPDX-License-Identifier: MIT
 *
 * events.h: every allocation and free, for `allotrope events`.
 *
 * ALLOTROPE_EVENTS is the path of the memory that its writer shares (trace/event_ring.h).
 */
#ifndef ALLOTROPE_SHIM_EVENTS_H
#define ALLOTROPE_SHIM_EVENTS_H

#include "shim/observer.h"

extern const struct observer events_observer;

#endif
