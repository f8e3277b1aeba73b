/* SPDX-License-Identifier: MIT
 *
 * events.h: the observer that records every allocation and free for `allotrope events`.
 *
 * Observes when ALLOTROPE_EVENTS is set: the path of the event pool, which the writer has made
 * (trace/protocol/event_pool.h).
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_EVENTS_H
#define ALLOTROPE_SHIM_OBSERVERS_EVENTS_H

#include "shim/route/observer.h"

extern const struct observer events_observer;

#endif
