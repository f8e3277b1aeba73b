/* SPDX-License-Identifier: MIT
 *
 * policy.h: what the collector asks of the program's barrier. Each policy is a file of its own, and
 * a program is linked with one. What most have in common is in policy.c.
 *
 *     file                what the stores leave behind         where the roots are
 *     policy_remsets.c    remembered slots                     there
 *     policy_cards.c      dirty cards                          summarised into the remembered set;
 *                                                              -DPURE_SCAN: in the dirty cards
 *     policy_pages.c      dirty pages, by traps                summarised
 *                         -DORACLE: as a run with traps found  summarised
 *     policy_kernel.c     dirty pages, by the kernel           summarised
 *
 * "Summarised": before each scavenge the dirty regions are looked through, their slots with young
 * values enter the remembered set, and the regions are clean (Hosking & Moss 1993, 3.2).
 *
 * Invariant old-to-young-is-known: at policy_visit_roots each slot of an old object with a young
 * value is remembered or lies in a dirty region. When the scavenge is over this holds without what
 * the mutator stores next.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_RUNTIME_POLICY_H
#define ALLOTROPE_BENCH_PROGRAMS_RUNTIME_POLICY_H

#include <stdio.h>

#include "bench_programs/runtime/heap.h"

extern const char policy_name[];

/* The heap was made; the image is not loaded yet. `file`: of the oracle, or NULL. */
void policy_open(const char *file);

/* The image is loaded: from now on stores count. Ends the program if this machine cannot. */
void policy_start(void);

/* A scavenge, in this order. */

/* Calls `visit` for each slot that may hold a young value. It returns whether it still does. */
void policy_visit_roots(slot_visitor *visit);

/* The collector is about to write to an old object's slot, or to fill memory that it took. */
void policy_before_write(uintptr_t start, uintptr_t end);

/* A promoted object's slot holds a young value. */
void policy_remember(value *slot);

/* All that is known has been dealt with. */
void policy_clean(void);

/* The mutator took old memory. */
void policy_allocated_old(uintptr_t start, uintptr_t end);

/* Whether an old slot with a young value is known; for the verifier, after a scavenge. */
bool policy_knows(value *slot);

/* Counters, zeroed when the measured part begins; 0 where a policy has no such thing. */
struct policy_counters {
    uint64_t remembered; /* entries of the remembered set that scavenges began with, added up */
    uint64_t dirty;      /* cards or pages, likewise */
    uint64_t traps;
    uint64_t unprotected; /* clean pages that the collector wrote to itself */
    uint64_t refused;     /* times the system could not unprotect a page, so all were */
};
extern struct policy_counters policy_counters;

#endif
