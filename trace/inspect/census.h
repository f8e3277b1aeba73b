/* SPDX-License-Identifier: MIT
 *
 * census.h: counts a trace's references by thread, and by what they touch and whose they are.
 */
#ifndef ALLOTROPE_TRACE_INSPECT_CENSUS_H
#define ALLOTROPE_TRACE_INSPECT_CENSUS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/base/range_map.h"
#include "trace/format/format.h"

/* Kinds that a trace does not know: a mapping that malloc hands out, and what lies in none. */
enum { CENSUS_HEAP = TRACE_REGIONS, CENSUS_NO_MAPPING };

struct account {
    uint32_t kind; /* enum trace_region, or one of the above */
    char *name;
    uint64_t references[TRACE_CLASSES];
};

struct thread_count {
    uint32_t thread;
    uint64_t references;
};

struct census {
    struct range_map mappings; /* at present, by their accounts */
    struct range last;         /* where the last address was found */
    struct account *accounts;  /* by kind and name, kept for good; 0: what lies in no mapping */
    size_t account_count, account_capacity;
    struct thread_count *threads;
    size_t thread_count, thread_capacity;
    uint64_t event_counts[TRACE_EVENT_TYPES];
};

/* Each ends the program when memory is short. */
void census_begin(struct census *census);
void census_count(struct census *census, const struct trace_batch *batch);

#endif
