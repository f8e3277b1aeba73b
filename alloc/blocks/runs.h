/* SPDX-License-Identifier: MIT
 *
 * runs.h: runs of granules (64 KiB), the memory that slabs and large blocks are made of.
 *
 * Free neighbours are merged: the granule map's entries at both ends of a free run point to its
 * record, so both neighbours of memory that is given back are found in constant time. Free runs
 * are kept by length, shortest fit first, and the heap grows when none is long enough. What is
 * free stays as it is only up to a bound; beyond it the contents go back to the kernel, and runs
 * that take memory and runs that do not stay apart until one is wanted that spans both.
 *
 * The bound is a share of what is in use, or what was in use not long ago: a program that empties
 * its heap again and again does not have the kernel clear the same pages each time. The count of
 * that decays as memory is given back, by a granule in 1024 for each granule, so that of a heap of
 * any size that is freed at once no more than 24 MiB stay (h e^(-h/1024) granules of h).
 *
 * Everything here belongs to whoever holds the heap's lock, unless it says otherwise.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_RUNS_H
#define ALLOTROPE_ALLOC_BLOCKS_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/owner.h"
#include "vm/area.h"

enum { RUN_LENGTHS = 64 };

/* How many granules given back make the count of what was in use decay to 1/e. */
enum { DECAY_GRANULES = 1024 };

struct free_run {
    struct owner owner;
    bool zero; /* holds no contents: reads as zero and takes no memory */
    char *start;
    size_t granules;
    struct free_run *next, *previous;
};

struct runs {
    struct area area;
    struct free_run *by_length[RUN_LENGTHS + 1]; /* [n]: n granules; [0]: more than RUN_LENGTHS */
    uint64_t lengths;                            /* bit n - 1: by_length[n] is not empty */
    struct free_run *unused_records;
    size_t unused_record_count;
    size_t used_runs, used_granules;
    size_t free_granules, dirty_granules; /* free in all; those that still take memory */
    unsigned retain_percent;              /* of the used that may be free and still take memory */
    size_t retain_least;                  /* granules that may in any case */
    size_t retain_asked;                  /* those too, by the program's own wish */
    size_t recent;                        /* granules that were in use not long ago and are not now,
                                             times DECAY_GRANULES */
};

void runs_init(struct runs *runs, unsigned retain_percent);

/* `granules` in a row, NULL when the kernel refuses. *zero: they read as zero. */
void *runs_take(struct runs *runs, size_t granules, bool *zero);

/* Takes the granules right behind a run, where it is to grow. False: they are not free. */
bool runs_take_at(struct runs *runs, char *start, size_t granules, bool *zero);

/* A granule of zero bytes for records, for good, out of what is free. NULL: there is none. */
void *runs_take_for_records(struct runs *runs);

/* Gives granules back, and their contents to the kernel when more than the bound is free. */
void runs_give(struct runs *runs, char *start, size_t granules, bool zero);

/* Gives back the end of a run whose start stays in use. False: there is no memory to do so. */
bool runs_give_tail(struct runs *runs, char *start, size_t granules);

/* Gives the contents of all free runs back to the kernel; returns bytes. */
size_t runs_trim(struct runs *runs);

bool runs_are_valid(const struct runs *runs);

#endif
