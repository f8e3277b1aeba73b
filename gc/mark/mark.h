/* SPDX-License-Identifier: MIT
 *
 * mark.h: finds every block that the program can reach; see mark.c. marker.h says which file of
 * this room has what.
 *
 * Where nothing else is said, a function is called while the world is stopped, by the thread that
 * stopped it. Exceptions are the preparations, the slices of a cycle, and the child of a snapshot.
 */
#ifndef ALLOTROPE_GC_MARK_MARK_H
#define ALLOTROPE_GC_MARK_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks of up to so many bytes are a byte longer than the program asked for, so what points behind
 * one points to it. */
enum { MARK_PADDED_BYTES = 128 };

struct mark_result {
    uint64_t blocks, bytes; /* marked */
    uint64_t overflows;     /* times that the stack was full and the heap was searched instead */
    unsigned markers;       /* that worked */
    const void *suspect;    /* one that a word among the roots points to; NULL: none */
    size_t suspect_bytes;
};

/* Called once. most_stack_bytes: what each marker's stack may grow to. False: without memory. */
bool mark_init(unsigned most_markers, size_t most_stack_bytes);

/* Before the world is stopped: waits until the helpers of the last collection have ended. */
void mark_prepare(void);
/* Waits until the kernel has none of them any more, but not for ever. No collection is under way,
 * and none can begin. Any thread, and a signal handler. */
void mark_wait_for_helpers(void);
/* In the child of a fork, which has none of them. */
void mark_forget_helpers(void);

/* Clears the marks of all live blocks, and makes ready. The mark bits of all other blocks are set:
 * no marker looks into these. */
void mark_begin(void);

/* Before the first minor collection, once. False: without memory. */
bool mark_init_minor(void);

/* Whether the address lay in a young slab when the last collection began. */
bool mark_was_young(uintptr_t address);

/* Like mark_begin(), but for a minor collection: old blocks keep their marks, and slabs that are
 * not young are not looked at. It may only follow a collection that marked all it reached, by the
 * rules of generations.h. */
void mark_begin_minor(void);

/* Follows again the blocks on a range of pages that were written: in a minor collection the old
 * ones, in a cycle those with a mark. What they point to is marked sooner or later. Returns how
 * many bytes of such blocks there are. After the roots. */
uint64_t mark_changed(uintptr_t start, uintptr_t end);
/* After the last of them. */
void mark_changed_done(void);
/* The same, whole, for the blocks that were made during a fork. */
void mark_of_fork(void);

/* A cycle (gc/cycle/concurrent.h). */

/* Once. False: without memory. */
bool mark_init_cycle(void);
/* As mark_begin. The roots that follow are not marked yet: mark_some does. */
void mark_begin_cycle(void);
/* Called around mark_some and mark_changed in a slice. The program runs; the heap's lock is held.
 * memory_file: a descriptor of /proc/self/mem, by which blocks of a page or more are read, since
 * the program may unmap or protect their pages. Pages that cannot be read so become dirty; all of
 * them if the descriptor is negative. */
void mark_begin_slice(int memory_file);
void mark_end_slice(void);
/* Marks until the slice has done so much work, roughly in bytes. True: nothing is left to mark. */
bool mark_some(size_t work);
size_t mark_work_of_slice(void);
/* The world is stopped again, roots and mark_changed follow. */
void mark_end_cycle(void);
/* After the roots and mark_changed: follows again the blocks whose pages are not tracked, and those
 * that slices have not read to their ends. */
void mark_untracked(void);
/* A snapshot (gc/world/snapshot.h). In the parent, the world stopped: roots that follow are only
 * noted, and no mark changes. */
void mark_begin_noting(void);
/* In the child: clears the marks as mark_begin does, and keeps what was noted. False: the parent
 * could not note all roots, or has kept blocks by mark_skip_part, whose marks would be lost. */
bool mark_begin_noted(void);
/* While roots are visited: whether they are only noted. If not, blocks may be read already during
 * the visit. So `false` may be set once mark_skip_unreadable and mark_skip_part were called, before
 * the words of the first mapping. */
void mark_defer_roots(bool defer);

/* Pages of blocks cannot be touched: see struct root_visitor. They are not scanned, but for those
 * that are not in memory, of which the kernel gives a copy. */
void mark_skip_unreadable(bool only_resident);
bool mark_skips_unreadable(void);
/* A part of the heap's memory cannot be touched: see struct root_visitor. Blocks below a page in
 * size that have a part of it are kept, and nobody looks into them. Larger blocks are left to
 * mark_skip_unreadable(). (A child lacks pages that were not to be copied.) */
void mark_skip_part(uintptr_t start, uintptr_t end);
/* Whether marking reads blocks of this size without a look at the mappings. */
bool mark_reads_in_place(size_t block_bytes);

/* Whether a suspect is noted (struct mark_result) when a word of the roots, from here on, points to
 * its start. */
void mark_tell_suspects(bool tell);

/* Everything that the words in [start, end) may point to is marked sooner or later. Pointers to
 * any byte of a block count, and pointers to one past its end. */
void mark_roots(const void *start, const void *end);

/* Like mark_roots(), but for words at any address: a compiler's constants stand in the code
 * wherever its instructions put them. */
void mark_roots_in_code(const void *start, const void *end);

/* Marks from the pinned blocks, which are roots; a minor collection from those of young slabs. In a
 * pinned block a number also counts if it is the distance to the start of another block: from the
 * number's own address, or from the start of the pinned block. Blocks that are not read in place
 * are left out of that. Returns how many pinned blocks there are. */
uint64_t mark_pinned(void);

/* Marks until nothing is left. helpers: how many more markers to start; one that cannot be started
 * is done without. */
void mark_finish(unsigned helpers, struct mark_result *result);

#endif
