/* SPDX-License-Identifier: MIT
 *
 * events.h: every allocation and free, for `allotrope events`.
 *
 * ALLOTROPE_EVENTS is the path of the memory that its writer shares (trace/protocol/event_pool.h).
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_EVENTS_H
#define ALLOTROPE_SHIM_OBSERVERS_EVENTS_H

#include "shim/route/observer.h"

extern const struct observer events_observer;

#endif
