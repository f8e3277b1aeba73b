/* SPDX-License-Identifier: MIT
 *
 * remembered_set.h: the old slots that may hold young values, each once.
 *
 * A list of slots, and a bit for each word of the old generation that says whether it is listed.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_RUNTIME_REMEMBERED_SET_H
#define ALLOTROPE_BENCH_PROGRAMS_RUNTIME_REMEMBERED_SET_H

#include "bench_programs/runtime/heap.h"

void remembered_open(void);
__attribute__((no_caller_saved_registers, target("general-regs-only"))) void remember(value *slot);
bool is_remembered(value *slot);

/* A visitor, for dirty regions: remembers the slot if its value is young. */
bool remember_if_young(value *slot);

/* Visits all, and forgets those for which `visit` returns false. */
void remembered_visit(slot_visitor *visit);

#endif
