/* SPDX-License-Identifier: MIT
 *
 * snapshot_cycle.h: a cycle (concurrent.h) that marks in a snapshot (gc/world/snapshot.h).
 *
 *     world runs   slices      the process's memory becomes huge pages           snapshot_cycle.c
 *                  prepare     each slab gets a place in the child's result      snapshot_cycle.c
 *     stop         begin       what a child lacks is read; the child is made     snapshot.c
 *     world runs   |           the child clears its marks and marks; its bits    mark.c
 *                  |             go into the result                              snapshot_cycle.c
 *                  slices      the bits become the slabs' marks                  snapshot_cycle.c
 *                              pages are protected for minor collections         concurrent.c
 *     stop         end         nothing is read or marked; sweep            collect_steps.c
 *
 * Why nothing is lost: what the program can reach at the last stop it could reach at the first, so
 * the child has marked it; or it was born since then, and is marked for that. No page need be
 * followed again.
 *
 * Invariants. Each has a test that fails without it (tests/gc/cycle/test_snapshot_cycle.c), except
 * the third: without it the notes of the second still keep the block that a test would look for.
 *
 *   [born marked]
 *       See concurrent.h. What was free at the first stop is marked by the child, and so are all
 *       blocks of a slab that is made since then (blocks_mark_newborn), or since places were given.
 *   [freed is born again]
 *       A block that was live at the first stop, and was freed since then, may be in use again when
 *       the cycle ends. So a thread that frees a block notes it first (blocks_note_freed), and the
 *       block counts as marked. A thread may be stopped between its question whether to note and
 *       its free. It then has the block in a register at the first stop, so the child marks the
 *       block. Where frees are ignored, few frees count: those of pinned blocks, and those by
 *       realloc.
 *   [marks in their place]
 *       The record of a slab holds the slab's place in the result, and a new record has none. So
 *       the marks of one slab are never given to another, however often records are reused
 *       meanwhile. Places are given under the heap's lock, anew in each cycle, to all slabs that
 *       exist when it begins. All blocks of a slab without a place count as marked.
 *   [given up is full]
 *       See concurrent.h: when the snapshot fails, too.
 *
 * Pinned blocks are roots of the child. One that was pinned later could be reached at the first
 * stop, or was born since.
 *
 * What it does not see:
 *   (1) A block was retired at the first stop, and realloc has made it the program's again since.
 *       What it pointed to at the first stop may be freed.
 *   (2) The program hid a pointer at the first stop, and holds it again at the last, without having
 *       freed the block. No root is read again there.
 *
 * The model is tests/gc/model/snapshot_cycle.pml.
 *
 * Such cycles exist only where frees are ignored. Elsewhere the notes would keep most of the freed
 * blocks.
 */
#ifndef ALLOTROPE_GC_CYCLE_SNAPSHOT_CYCLE_H
#define ALLOTROPE_GC_CYCLE_SNAPSHOT_CYCLE_H

#include <stdbool.h>
#include <stdint.h>

#include "gc/mark/mark.h"
#include "gc/world/snapshot.h"

/* Besides the marks. */
struct snapshot_cycle_result {
    struct mark_result marked;
    uint64_t pinned;
};

/* Before a cycle. The stop that makes the child copies a page table entry for each page. So slices
 * before that stop turn private memory, the program's and ours, into huge pages, wherever a span of
 * 2 MiB is nearly full. This is worth it for a large heap without minor collections, which protect
 * small pages one by one.
 *
 * Returns whether it is worth it. */
bool snapshot_cycle_begin(void);

/* How many slabs one step goes over at most: it sweeps them, gives them places, or gives them their
 * marks. A slice takes one step, before the snapshot up to four. */
enum { SLABS_OF_STEP = 256 };

/* One step of a slice. Looks at some spans, until one is made a huge page; without `gathers`, and
 * when there are no more, some slabs get places. Needs resident_open and the heap's lock. False:
 * nothing is left. */
bool snapshot_cycle_prepare_some(bool gathers);

/* Huge pages that were made, ever. */
uint64_t snapshot_cycle_gathered(void);

/* Gives places to all slabs that have none yet, and makes room for the result. Makes no huge pages.
 * The heap's lock is held from here until the snapshot has begun. False: without memory, or with
 * too many blocks. */
bool snapshot_cycle_prepare(struct snapshot *snapshot);

/* In the child, which has marked. */
void snapshot_cycle_hand_back(const struct snapshot *snapshot,
                              const struct snapshot_cycle_result *result);

/* The snapshot is done; the world runs, and the heap's lock is held. Gives some slabs their marks;
 * rest: all that are left. False: all slabs have them. */
bool snapshot_cycle_take_some(const struct snapshot *snapshot, bool rest);
/* After the last. */
struct snapshot_cycle_result snapshot_cycle_taken(const struct snapshot *snapshot);

/* At the last stop: what was freed since the first, and whatever is not live, has its mark. */
void snapshot_cycle_complete(void);

#endif
