/* SPDX-License-Identifier: MIT
 *
 * collected.h: what the benchmarks of collection share: one source, three programs.
 *
 *     name            frees what it no longer needs
 *     name_forgets    (FORGETS) frees nothing: for free=ignore, leaks=collect, or much memory
 *     name_libgc      (LIBGC) frees nothing and asks libgc, the Boyer-Demers-Weiser collector,
 *                     for memory; its own GC_MAXIMUM_HEAP_SIZE limits the heap
 *
 * All three print the same line. libgc's writes what it did to standard error.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_COLLECTED_H
#define ALLOTROPE_BENCH_PROGRAMS_COLLECTED_H

#ifdef LIBGC
#define GC_THREADS
#include <gc.h>
#endif

#include "bench_programs/bench.h"

static inline void start_collected(void)
{
#ifdef LIBGC
    GC_INIT();
#endif
}

/* Zeroed only if a program's own code does it: as malloc, so that all three do the same. */
static inline void *obtain(size_t bytes)
{
#ifdef LIBGC
    void *block = GC_MALLOC(bytes);
    if (!block)
        bench_no_memory(bytes);
    return block;
#else
    return allocate(bytes);
#endif
}

#if defined LIBGC || defined FORGETS
enum { frees = 0 };
#else
enum { frees = 1 };
#endif

static inline void give_up(void *block)
{
    if (frees)
        free(block);
}

static inline void finish_collected(void)
{
#ifdef LIBGC
    struct GC_prof_stats_s statistics;
    GC_get_prof_stats(&statistics, sizeof statistics);
    fprintf(stderr, "libgc: collections=%lu heap_bytes=%lu\n", (unsigned long)statistics.gc_no,
            (unsigned long)statistics.heapsize_full);
#endif
}

#endif
