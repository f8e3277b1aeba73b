/* SPDX-License-Identifier: MIT
 *
 * concurrent.h: a full collection most of which runs beside the program: a cycle.
 *
 * Mostly parallel marking (Boehm, Demers, Shenker 1991), with the kernel's dirty bits
 * (vm/kernel/dirty.h, DIRTY_CYCLE) in the place of page faults. No thread is made for it: threads
 * that allocate mark a slice each, so much for each byte that they take.
 *
 *     world runs   protect    pages with live blocks are protected, and clean         concurrent.c
 *     stop         begin      marks are cleared; the roots are noted            collect_steps.c
 *     world runs   slices     what can be reached from the roots is marked            slices.c
 *                  a round    dirty pages are protected and clean again; what is
 *                             marked on them is followed again, and what it leads to
 *     stop         end        the roots again; what is marked on pages that are dirty
 *                             now is followed again; then as in any full collection
 *
 * A slice holds the collector's lock and the heap's lock. So during a slice no slab comes, goes or
 * changes its shape, the heap unmaps no block, and no other slice or collection runs. All of that
 * may happen between two slices. A slice blocks all signals, because a handler might fork.
 *
 * Why nothing is lost: at the last stop every marked block was followed after its pages were
 * cleaned for the last time, or lies on a page that is dirty, and is followed again. So what a
 * marked block points to is marked, and the roots are read in the stopped world.
 *
 * Invariants. Each has a test that fails without it (tests/gc/cycle/test_concurrent.c), except the
 * first: a test would need a second thread at the right moment. The model
 * (tests/gc/model/cycle.pml, WITHOUT_BITS_AFTER) checks the first, and some of the others.
 *
 * A cycle may also mark in a child with a copy of the memory: snapshot_cycle.h. Of the invariants
 * below, only [born marked] and [given up is full] apply to such a cycle.
 *
 *   [protect before marks]
 *       Pages are protected before the marks are cleared, and in a round before what is marked on
 *       them is followed. What is written later is on a dirty page. (A page that is clean and
 *       not protected does no harm: the kernel reports again that it was written.)
 *   [last harvest], [last roots]
 *       The last stop follows again what is marked on dirty pages, and reads the roots again.
 *   [born marked]
 *       A block that is not live when the cycle begins is marked from then on (slices.c), and so
 *       is every block of a slab that is made during the cycle (blocks_mark_newborn). It is not
 *       followed for that. What the program puts into it is on a dirty page. In a cycle by slices
 *       a block that was live when the cycle began, and that is freed and handed out again in it,
 *       is marked as any other: the word that leads to it is a root, or was written and is on a
 *       dirty page. (Blocks that are made during a fork are not marked at birth. A cycle by slices
 *       marks them as any other; for one in a child see [marks in their place].)
 *   [given up is full]
 *       A cycle is given up when a stop fails, when the kernel does not tell which pages were
 *       written, when the program asks for a collection or memory runs out, before a sandbox, and
 *       in the child of a fork. The next collection is then a full one in a stopped world, which
 *       clears all marks. (A cycle that is given up before its first stop has changed no marks. So
 *       a minor collection may come first.)
 *   [locked shapes], [read by copy], [boundary marks both], [free is marked]
 *       See gc/mark/slices.c.
 *   [untracked is followed]
 *       Blocks that were made during a fork are in no range that is tracked: those with a mark are
 *       followed again at the last stop, and those that are old in each minor collection.
 *   [pinned at both stops]
 *       Pinned blocks are roots of both stops.
 *
 * A minor collection has no use for the marks of a cycle that has not ended. So there is none
 * during a cycle.
 *
 * Who writes: the holder of the collector's lock and the heap's lock. The phase and the bytes taken
 * at the last slice are atomic: any thread reads them to see whether a slice is due, and may see an
 * old value. Any thread also reads the room and its beginning, which are not atomic, to see whether
 * the cycle is to stop. So the cycle may stop early or late. A fork comes between two slices, never
 * in one: it takes both locks.
 */
#ifndef ALLOTROPE_GC_CYCLE_CONCURRENT_H
#define ALLOTROPE_GC_CYCLE_CONCURRENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct concurrent_statistics {
    uint64_t cycles, given_up; /* begun; of these */
    uint64_t slices, slice_ns, longest_slice_ns;
    uint64_t rounds, round_pages;         /* protected again */
    uint64_t last_pages, rescanned_bytes; /* dirty at the last stop; of marked blocks there */
};

/* Once, after generations_init. Cycles that mark in slices need generations, for their dirty bits.
 * Without generations there are none. uses_snapshots: there may be cycles that mark in a snapshot,
 * which need no dirty bits. */
void concurrent_init(bool uses_snapshots);
bool concurrent_is_on(void);
/* Whether there may be cycles that mark in slices. */
bool concurrent_has_slices(void);

/* Whether a cycle is under way. Any thread. */
bool concurrent_runs(void);

/* Before the first stop: from here on slices protect pages. (concurrent_protect does it all at
 * once.) room: bytes that the program may take meanwhile. live: bytes that are to be marked. */
void concurrent_begin_protecting(size_t room, size_t live);
/* Before the first stop: from here on slices prepare a snapshot (snapshot_cycle_begin). room: as
 * above. */
void concurrent_begin_gathering(size_t room);
bool concurrent_gathers(void);
void concurrent_protect(void);
/* After the first stop. room: until all is marked. */
void concurrent_begin(size_t room, size_t live);
/* Like concurrent_begin(), but for a cycle that marks in a snapshot. */
void concurrent_begin_in_snapshot(size_t room, size_t live);
/* Whether a snapshot is marking, or its marks are being taken over. */
bool concurrent_awaits_snapshot(void);
/* Whether the program has taken twice the room. The cycle must not go on beside it any longer. */
bool concurrent_is_overdue(void);
/* The snapshot is done: from here on slices take over its marks. */
void concurrent_take_snapshot(void);
bool concurrent_takes_snapshot(void);
/* All marks of the snapshot are taken over. cpu_ns: the child's processor time. With generations
 * slices protect pages from here on. */
void concurrent_snapshot_taken(uint64_t cpu_ns);
/* Whether the cycle under way has had its first stop, so that it may have marks. */
bool concurrent_has_marks(void);

/* Whether the program has taken so much since the last slice that one is due. Any thread. */
bool concurrent_is_due(void);
/* Does a slice. work: roughly in bytes; 0: as much as is due. All signals are blocked, and the
 * collector's lock and the heap's lock are held. */
void concurrent_slice(size_t work);
/* Counts a slice of `ns` nanoseconds that was done elsewhere: by a sweep, or by a look at the
 * snapshot, perhaps with a wait for it. */
void concurrent_did_slice(uint64_t ns);
/* Nothing is left but a stop, or the program has taken too much to wait for longer. */
bool concurrent_is_to_stop(void);

/* At the last stop, after the roots: follows again what has changed. */
void concurrent_mark_changed(void);

/* The cycle is over. */
void concurrent_end(bool given_up);

/* Bytes that threads have taken since the cycle at hand began. */
size_t concurrent_taken_bytes(void);

/* Nanoseconds that the last cycle took beside its stops: in slices, those before the first stop
 * too, and the processor time of its child. */
uint64_t concurrent_ns(void);

const struct concurrent_statistics *concurrent_statistics(void);

#endif
