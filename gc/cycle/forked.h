/* SPDX-License-Identifier: MIT
 *
 * forked.h: a cycle (concurrent.h) that marks in a snapshot (gc/world/snapshot.h).
 *
 *     world runs   slices      the process's memory becomes huge pages               forked.c
 *                  prepare     each slab gets a place in the child's result          forked.c
 *     stop         begin       what a child lacks is read; the child is made         snapshot.c
 *     world runs   |           the child clears its marks and marks; its bits go     mark.c
 *                  |             into the result                                     forked.c
 *                  slices      the bits become the slabs' marks                      forked.c
 *                              pages are protected for minor collections             concurrent.c
 *     stop         end         nothing is read or marked; sweep                      collect.c
 *
 * Why nothing is lost: what the program can reach at the last stop it could reach at the first, so
 * the child has marked it; or it was born since then, and is marked for that. No page need be
 * followed again.
 *
 * Invariants. Each has a test that fails without it (tests/gc/cycle/test_forked.c), but for the
 * third: there the notes of the second keep what the test looks for.
 *
 *   [born marked]
 *       As in any cycle: what was free at the first stop is marked by the child, and so are all
 *       blocks of a slab that is made since then (blocks_mark_newborn), or since places were given.
 *   [freed is born again]
 *       A block that was live at the first stop, and that is freed since then, may be another's
 *       when the cycle ends. So who frees one notes it first (blocks_note_freed), and it counts as
 *       marked. Who was stopped between the question whether to note and the free has the block in
 *       a register at the first stop: the child marks it. Where frees are ignored few count: those
 *       of pinned blocks, and by realloc.
 *   [marks in their place]
 *       A slab's place in the result is in its record, and new records have none. So no mark is
 *       taken for that of another slab's block, however often records are used again meanwhile.
 *       Places are given with the heap's lock, anew in each cycle to all slabs that were there when
 *       it began. What has none when the marks are taken over is marked.
 *   [given up is full]
 *       See concurrent.h: when the snapshot fails, too.
 *
 * What it does not see:
 *   (1) A block was retired at the first stop, and realloc has made it the program's again since.
 *       What it pointed to at the first stop may be freed.
 *   (2) The program hid a pointer at the first stop, and holds it again at the last, without having
 *       freed the block. No root is read again there.
 *
 * The model is tests/gc/model/forked.pml.
 *
 * Only where frees are ignored: else most blocks that are freed would be kept by their notes.
 */
#ifndef ALLOTROPE_GC_CYCLE_FORKED_H
#define ALLOTROPE_GC_CYCLE_FORKED_H

#include <stdbool.h>
#include <stdint.h>

#include "gc/mark/mark.h"
#include "gc/world/snapshot.h"

/* Besides the marks. */
struct forked_result {
    struct mark_result marked;
    uint64_t pinned;
};

/* Before a cycle. A stop that makes a child copies an entry of the page tables for each page. So
 * slices make huge pages before, of private memory of the program and of ours, where a span of one
 * is nearly full: for a large heap, and without minor collections, whose pages are protected one by
 * one.
 *
 * Returns whether that is worth it. */
bool forked_begin(void);

/* How many slabs one step goes over at most: it sweeps them, gives them places, or gives them their
 * marks. A slice takes one step, before the snapshot up to four. */
enum { SLABS_OF_STEP = 256 };

/* One step of a slice. Looks at some spans, until one is made a huge page; without `gathers`, and
 * when there are no more, some slabs get places. Needs resident_open and the heap's lock. False:
 * nothing is left. */
bool forked_prepare_some(bool gathers);

/* Huge pages that were made, ever. */
uint64_t forked_gathered(void);

/* What is left, but no huge pages. The heap's lock is held, from here until the snapshot has begun.
 * False: without memory. */
bool forked_prepare(struct snapshot *snapshot);

/* In the child, which has marked. */
void forked_hand_back(const struct snapshot *snapshot, const struct forked_result *result);

/* The snapshot is done; the world runs, and the heap's lock is held. Some slabs take over their
 * marks, or the rest of them. False: all have. */
bool forked_take_some(const struct snapshot *snapshot, bool rest);
/* After the last. */
struct forked_result forked_taken(const struct snapshot *snapshot);

/* At the last stop: what was freed since then, and whatever is not live, has its mark. */
void forked_complete(void);

#endif
