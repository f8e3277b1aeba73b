/* SPDX-License-Identifier: MIT
 *
 * observers.c: lists the observers of the routing library; see observer.h.
 */
#include "shim/observers/doorbells.h"
#include "shim/observers/events.h"
#include "shim/observers/latency.h"
#include "shim/route/observer.h"
#include "shim/observers/sites.h"
#include "shim/observers/statistics.h"

const struct observer *const observers[] = {&doorbells_observer,  &latency_observer,
                                            &statistics_observer, &sites_observer,
                                            &events_observer,     NULL};
