/* SPDX-License-Identifier: MIT
 *
 * runs.h: runs of granules (64 KiB), the memory that slabs and large blocks are made of.
 *
 * Free neighbours are merged: the granule map's entries at both ends of a free run point to its
 * record, so both neighbours of memory that is given back are found in constant time. A free run
 * has at most one *hull*, a stretch outside of which it holds no contents:
 *
 *     start         hull        hull_end              end
 *     | zero        | dirty, and zero between         zero |
 *
 * Merged runs have one hull about both. `dirty` estimates how many granules of it have contents.
 * So a run is one run, whatever its history. What is taken from it comes out of its dirty end,
 * which costs no faults. Who wants zero bytes gets the other end.
 *
 * Free runs are kept by length in bins, those with a hull apart from those without, and the
 * shortest that will do is taken: a dirty one if there is any. The heap grows when none is long
 * enough. How much stays dirty is the matter of decay.h; beyond it runs_give_back_some gives
 * contents back to the kernel, a hull's end at a time.
 *
 * With the option `huge` a large heap without room grows by aligned huge pages of 2 MiB. The kernel
 * clears one at the first write to it, in place of 512 faults, and it takes one entry of the TLB.
 * Only small runs make a heap grow so: most of a large block may stay untouched. So at most the
 * last huge page has memory that nobody writes. Where a part of a huge page is given back, the
 * kernel is told not to make it one again: that would bring back what was free.
 *
 * Everything here belongs to whoever holds the heap's lock, unless it says otherwise.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_RUNS_H
#define ALLOTROPE_ALLOC_BLOCKS_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/blocks/decay.h"
#include "vm/owner.h"
#include "vm/area.h"

/* A bin for each length up to RUN_LENGTHS granules, then four for each power of two. */
enum { RUN_LENGTHS = 64, RUN_BINS = RUN_LENGTHS + 4 * 19, RUN_BIN_WORDS = (RUN_BINS + 63) / 64 };

/* So much is given back to the kernel in one step, 512 KiB: some 25 microseconds. */
enum { SURPLUS_STEP = 8 };

/* A huge page. */
enum { HUGE_GRANULES = 32 };

struct free_run {
    struct owner owner;
    char *start;
    size_t granules;
    char *hull, *hull_end; /* equal: it reads as zero and takes no memory */
    size_t dirty;          /* granules; 0 just if the hull is empty */
    struct free_run *next, *previous;
};

struct run_bins {
    uint64_t filled[RUN_BIN_WORDS]; /* a bit for each bin that is not empty */
    struct free_run *by_length[RUN_BINS];
};

struct runs {
    struct area area;
    struct free_run *unused_records;
    size_t unused_record_count;
    size_t used_runs, used_granules;
    size_t free_granules, dirty_granules; /* free in all; those that still take memory */
    struct decay decay;
    uint64_t (*now_ns)(void);
    size_t huge_from;            /* used granules from which on it grows by huge pages; 0: never */
    struct run_bins dirty, zero; /* with and without a hull; last, since they fill a page */
};

/* What whoever takes a run would rather have. */
enum run_wish { RUN_ANY, RUN_ZERO };

/* [start, end) */
struct stretch {
    char *start, *end;
};

static inline bool is_empty(struct stretch stretch)
{
    return stretch.start >= stretch.end;
}

/* now_ns: a clock as decay_until wants it. */
void runs_init(struct runs *runs, unsigned retain_percent, uint64_t (*now_ns)(void));

/* `granules` in a row, NULL when the kernel refuses. Outside of *contents they read as zero. */
void *runs_take(struct runs *runs, size_t granules, enum run_wish wish, struct stretch *contents);

/* Takes the granules right behind a run, where it is to grow. False: they are not free. */
bool runs_take_at(struct runs *runs, char *start, size_t granules);

/* A granule of zero bytes for records, for good, out of what is free. NULL: there is none. */
void *runs_take_for_records(struct runs *runs);

/* Gives granules back; those that were never written may be told as zero. */
void runs_give(struct runs *runs, char *start, size_t granules, bool zero);

/* Gives back the end of a run whose start stays in use. False: there is no memory to do so. */
bool runs_give_tail(struct runs *runs, char *start, size_t granules);

/* Whether more is dirty than may be. Lets what may be decay, as time has passed. */
bool runs_have_surplus(struct runs *runs);

/* Gives contents beyond the bound back to the kernel, a step at most; returns the granules looked
 * at. 0: there is no surplus, or the kernel refuses what was tried. */
size_t runs_give_back_some(struct runs *runs);

/* Gives the contents of all free runs back to the kernel; returns bytes. */
size_t runs_trim(struct runs *runs);

bool runs_are_valid(const struct runs *runs);

#endif
