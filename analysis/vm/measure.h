/* SPDX-License-Identifier: MIT
 *
 * measure.h: how allotrope-vm times one operation, and how it says what it found.
 *
 * An operation is timed in batches. What is said is the median of the batches, per operation: a
 * batch in which another process had the processor does not count. Whoever calls the program again
 * and again has one such figure for each round.
 */
#ifndef ALLOTROPE_ANALYSIS_VM_MEASURE_H
#define ALLOTROPE_ANALYSIS_VM_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/base/json.h"

#define PAGE ((size_t)4096)

/* One figure: what was done, by which means, to how many pages, threads or bytes. */
struct subject {
    const char *what, *by; /* by: NULL where there is one way */
    uint64_t count;        /* 0: none */
};

void say(struct json *json, struct subject subject, double ns);
/* There is no figure, and why. */
void say_none(struct json *json, struct subject subject, const char *why);

/* Time on the wall, for what several threads do. */
double now_ns(void);

/* Processor time of this thread, for what it does alone: the same as on the wall where nothing else
 * runs, and not longer where something does. since() takes off what asking for it costs. */
double cpu_ns(void);
double since(double begin);

/* The median; sorts. */
double median(double *values, size_t count);

/* A batch: makes ready, does `operations` of them, and returns the nanoseconds that these took;
 * negative: cannot. */
typedef double batch(void *argument, size_t operations);

/* Times `batches` of them. Negative: cannot. */
double time_batches(batch *run, void *argument, size_t operations, size_t batches);

/* Private pages, written to, without huge pages; ends the program where there is no memory. */
char *make_pages(size_t count);
void drop_pages(char *pages, size_t count);

/* A permutation of 0 .. count - 1, the same in each run. */
void shuffle(uint32_t *order, size_t count);

_Noreturn void give_up(const char *what);

/* The groups of figures. */
void measure_table(struct json *json);     /* traps.c */
void measure_providers(struct json *json); /* providers.c */
void measure_stops(struct json *json);     /* stops.c */
void measure_calls(struct json *json);     /* calls.c */
void measure_scans(struct json *json);     /* scans.c */
void measure_dirty(struct json *json);     /* providers.c */

#endif
