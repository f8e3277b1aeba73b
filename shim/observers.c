/* SPDX-License-Identifier: MIT
 *
 * observers.c: what the routing library can observe; see observer.h.
 */
#include "shim/doorbells.h"
#include "shim/events.h"
#include "shim/observer.h"
#include "shim/statistics.h"

const struct observer *const observers[] = {&doorbells_observer, &statistics_observer,
                                            &events_observer, NULL};
