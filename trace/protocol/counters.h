/* SPDX-License-Identifier: MIT
 *
 * counters.h: what `allotrope stats PID` reads in a process that runs.
 *
 * The reader finds the library in /proc/PID/maps, or the program that was linked with it
 * statically, and this structure in its data by the magic. Then it reads each counter at its
 * address through /proc/PID/mem. The process does nothing for it and is not stopped. Two counters
 * may be from different moments.
 */
#ifndef ALLOTROPE_TRACE_PROTOCOL_COUNTERS_H
#define ALLOTROPE_TRACE_PROTOCOL_COUNTERS_H

#include <stdint.h>

/* The structure lies alone in this section. So the section headers of a program's file tell where
 * it is, or that there is none. Nobody has to search the program's data, which may be large. */
#define COUNTERS_SECTION "allotrope_live"

enum { COUNTERS_NAME_BYTES = 24, MOST_COUNTERS = 48 };

struct published_counters {
    char magic[16]; /* "allotrope-live/1" once all that follows is valid; zero before */
    char allocator[COUNTERS_NAME_BYTES], preset[COUNTERS_NAME_BYTES];
    uint64_t count;
    struct {
        char name[COUNTERS_NAME_BYTES];
        const void *address; /* of 8 bytes */
    } counters[MOST_COUNTERS];
};

#endif
