/* SPDX-License-Identifier: MIT
 *
 * observers.c: what the routing library can observe; see observer.h.
 */
#include "shim/doorbells.h"
#include "shim/events.h"
#include "shim/latency.h"
#include "shim/observer.h"
#include "shim/sites.h"
#include "shim/statistics.h"

const struct observer *const observers[] = {&doorbells_observer,  &latency_observer,
                                            &statistics_observer, &sites_observer,
                                            &events_observer,     NULL};
