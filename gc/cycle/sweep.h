/* SPDX-License-Identifier: MIT
 *
 * sweep.h: frees what was not marked.
 *
 * A sweep changes bits only, a few dozen words for each slab. It touches no block, but in a
 * quarantine, where it reads the few that threads may take without a further look
 * (alloc/blocks/quarantine.h). So it is short, and is done while the world is stopped (figures in
 * docs/measurements/gc.md). When the world runs again the free bits are exact. Three things are put
 * off:
 *
 *     live bits               Where frees are ignored, those of freed blocks stay set: [late live
 *                             bit] (alloc/blocks/heap.h).
 *     a slab's list           A thread finds out which of its slabs have become available or empty
 *                             when it next needs one of their class.
 *     a large dead block      goes back to the kernel after the world runs again.
 *
 * A live block without a mark is dead, unless the program hides pointers. Whether it does shows
 * only when it uses such a block. So a dead block that the program has not freed first becomes a
 * suspect (slab.h). A suspect keeps its contents and loses its live bit. So if the program passes
 * it to free, realloc or their kin, the call takes its slow path, which tells the collector. The
 * collector chooses what becomes of suspects ("retired": the program has freed the block):
 *
 *     enum sweep_leaks      dead and retired   dead for the first time   a suspect, dead again
 *     RECLAIM               freed              freed                     freed
 *     SUSPECT               freed              suspected                 freed
 *     WATCH                 freed              suspected                 stays
 *     KEEP                  freed              stays                     stays
 */
#ifndef ALLOTROPE_GC_CYCLE_SWEEP_H
#define ALLOTROPE_GC_CYCLE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/blocks/blocks.h"

/* What becomes of dead blocks that were not freed: the table above. */
enum sweep_leaks { SWEEP_RECLAIM, SWEEP_SUSPECT, SWEEP_WATCH, SWEEP_KEEP };

struct sweep_result {
    uint64_t blocks, bytes;                   /* freed */
    uint64_t retired_blocks;                  /* of these */
    uint64_t held_blocks, held_bytes;         /* retired, and something points to them */
    uint64_t suspected_blocks, suspect_bytes; /* newly suspected */
    uint64_t suspects;                        /* there are now */
    uint64_t pointed_to;                      /* suspects that something points to again */
    uint64_t empty_bytes;                     /* in slabs without a live block */
    uint64_t live_bytes;                      /* suspects too */
    uint64_t promoted_bytes;                  /* of blocks that have become old */
};

/* The world is stopped and marking is done. */
void sweep(enum sweep_leaks leaks, struct sweep_result *result);

/* Like sweep(), but where there are generations (generations.h): what is live and has a mark
 * becomes old. minor: sweeps and counts young slabs only. */
void sweep_and_promote(enum sweep_leaks leaks, bool minor, struct sweep_result *result);

/* A late sweep. Only where frees are ignored, and after a stop that has left every block that is
 * not live with its mark. */
bool sweep_may_be_late(enum sweep_leaks leaks);
/* The world is stopped and marking is done. */
void sweep_begin_late(enum sweep_leaks leaks);
/* Sweeps a slab that a late sweep has left (alloc/blocks/late_sweep.h). It is the member of this
 * name of struct blocks_collector (alloc/blocks/blocks.h). It differs from sweep() in three points.
 * The dead blocks of another thread's slab become remote frees. Retired and suspect bits are
 * changed by locked instructions. A new suspect in another thread's slab keeps its live bit, which
 * is that thread's to clear: so its use proves nothing, and what the program does then is what it
 * would do with any block. */
void sweep_late(struct slab *slab, enum sweeper sweeper);
/* All is swept (blocks_sweep_rest). result: of the whole sweep. The heap's lock is held. */
void sweep_end_late(struct sweep_result *result);

#endif
