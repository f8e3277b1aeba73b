/* SPDX-License-Identifier: MIT
 *
 * mark.h: finds every block that the program can reach; see mark.c.
 *
 * All of this runs while the world is stopped, in the thread that stopped it.
 */
#ifndef ALLOTROPE_GC_MARK_MARK_H
#define ALLOTROPE_GC_MARK_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* In the child of a fork, which has none of them. */
void mark_forget_helpers(void);

/* Clears all marks and makes ready. What is not live by now, by the bits, is marked by nothing. */
void mark_begin(void);

/* The same for a minor collection: old blocks keep their marks, and slabs that are not young are
 * not looked at. Only after a collection that marked all it reached, and by rules of generations.h.
 */
void mark_begin_minor(void);

/* What the old blocks in a range of pages point to is marked sooner or later. Returns how many
 * bytes of them there are. After the roots. */
uint64_t mark_old(uintptr_t start, uintptr_t end);

/* Pages of blocks cannot be touched: see struct root_visitor. They are not scanned. */
void mark_skip_unreadable(bool only_resident);
bool mark_skips_unreadable(void);

/* Whether suspects count that the roots point to, from here on to their start. */
void mark_tell_suspects(bool tell);

/* Everything that the words in [start, end) may point to is marked sooner or later. Pointers to
 * any byte of a block count, and pointers to one past its end. */
void mark_roots(const void *start, const void *end);

/* The same for words at any address: a compiler's constants stand in the code wherever its
 * instructions put them. */
void mark_roots_in_code(const void *start, const void *end);

/* Pinned blocks are roots. In them numbers count too that are the distance to a block's start: from
 * the number itself, or from the start of the block that it is in. Returns how many there are. */
uint64_t mark_pinned(void);

/* Marks until nothing is left. helpers: how many more markers to start; one that cannot be started
 * is done without. */
void mark_finish(unsigned helpers, struct mark_result *result);

#endif
