/* SPDX-License-Identifier: MIT
 *
 * observers.c: lists the observers of the routing library, and tells them where it lies; see
 * observer.h.
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

/* This file is compiled for the library and for the archive. The observers are not: the archive has
 * their position-independent code, so PIC tells nothing there. */
#ifdef PIC
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));
const struct text_range own_text = {__ehdr_start, etext};
#else
const struct text_range own_text = {NULL, NULL};
#endif
