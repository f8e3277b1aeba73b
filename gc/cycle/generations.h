/* SPDX-License-Identifier: MIT
 *
 * generations.h: minor collections, which follow what is young and what may have changed.
 *
 * Sticky mark bits (Demers et al. 1990), with a page for a card: a block that a collection has
 * marked is old from then on, and keeps its mark. A minor collection follows the roots, all of
 * them; the old blocks on dirty pages; and the young blocks that these lead to. It frees young
 * blocks only. Which pages are dirty the kernel tells (vm/kernel/dirty.h): those with old blocks
 * are protected at the end of each collection, in the stopped world.
 *
 *     world runs      a write to a protected page makes it dirty, without a signal
 *     prepare         memory that is new is tracked; the heap's lock is held
 *     stop
 *     begin           asks the kernel which pages were written; in doubt the collection is a full
 *                     one
 *     mark            the roots, old blocks on dirty pages
 *     sweep           of young slabs; what is marked becomes old
 *     protect         the dirty pages that have old blocks, which are clean then
 *     go on
 *
 * Why a clean page need not be read: at the end of the collection that cleaned it all that its old
 * blocks pointed to was marked, and so became old. A pointer to a block that is younger has been
 * written since then.
 *
 * Invariants. Each has a test that fails without it (tests/gc/cycle/test_generations.c).
 *
 *   [doubt is full]
 *       A collection is a full one if the kernel does not tell which pages of the heap's space were
 *       written. (If it does not tell for a large block that is a mapping, all pages of that block
 *       count as dirty, and the collection may still be a minor one.) A collection is also a full
 *       one if a young slab may be missing on the list: [young is listed], alloc/blocks/young.c.
 *   [doubt is dirty], [clean is proven], [own memory only]
 *       See vm/kernel/dirty.h.
 *   [first survival promotes]
 *       Every block that is marked when a page is cleaned is old before the next collection's stop.
 *       A late sweep makes it old after the world runs (alloc/blocks/late_sweep.h).
 *   [unmarked is young]
 *       What a sweep keeps without a mark (a suspect, a leak that is kept) is not old, and its slab
 *       is young: the next collection looks at it again.
 *   [born dirty]
 *       A page is clean only if the collector has cleaned it while it was tracked. Memory is
 *       tracked before the first block in it becomes old, and all its pages are dirty then.
 *   [untracked is followed]
 *       See gc/cycle/concurrent.h.
 *   [edges overlap]
 *       See gc/mark/changed.c.
 *   [marks are whole]
 *       After a collection that was given up in its stop, or a cycle that has marked, and in the
 *       child of a fork, the next collection is a full one. Where threads could not be stopped no
 *       mark has changed; where roots could not be read, marks may be cleared.
 *   [pins are roots]
 *       A slab with a pinned block is young: minor collections find the block there, and follow it.
 *   [pinned by kernel is dirty]
 *       The kernel writes buffers that are registered with io_uring in spite of the protection. So
 *       the pages of their blocks are dirty in each collection.
 *   [current is young], [listed is young], [young is listed]
 *       See alloc/blocks/young.c.
 *
 * Who writes: the holder of the collector's lock and the heap's. The child of a fork begins with
 * marks that are not whole, and all pages dirty.
 *
 * What is not seen: (1) An old block that was retired when its page was cleaned was not followed.
 * If the program resizes it in place after its free, it is the program's again, and only what lies
 * on its written pages is read. (2) An old block holds a stale address; a new block is made at that
 * address; and the program does not store the pointer, since the word is equal already. Under
 * free=ignore such an address can stand only in memory that its owner has never written. Under
 * `honour` it is a dangling pointer.
 *
 * Sources: Demers, Weiser, Hayes, Boehm, Bobrow, Shenker, "Combining generational and conservative
 * garbage collection", POPL 1990; Blackburn & McKinley, "Immix", PLDI 2008; Appel & Li, "Virtual
 * memory primitives for user programs", ASPLOS 1991; Hosking & Moss, "Protection traps and
 * alternatives for memory management of an object-oriented language", SOSP 1993.
 */
#ifndef ALLOTROPE_GC_CYCLE_GENERATIONS_H
#define ALLOTROPE_GC_CYCLE_GENERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/kernel/dirty.h"

struct generations_statistics {
    uint64_t looks, look_ns;  /* harvests */
    uint64_t dirty_pages;     /* that they found, ever */
    uint64_t rescanned_bytes; /* of old blocks on them, in minor collections */
    uint64_t protected_pages, protect_ns;
    uint64_t refused; /* minor collections that doubt made full ones */
};

/* Before the first collection, once. Where the kernel does not tell what was written, all
 * collections are full ones. */
void generations_init(enum dirty_provider provider);

/* False: there are no minor collections. */
bool generations_are_on(void);

/* Whether the next collection could be a minor one: [marks are whole]. */
bool generations_are_ready(void);

/* The heap's lock is held, the world runs: what is new is tracked. */
void generations_prepare(void);

/* The world is stopped. Asks the kernel which pages were written. minor: whether a minor collection
 * is wanted. Returns whether this collection is a minor one. */
bool generations_begin(bool minor);

/* Whether the kernel did not tell of all of the heap's space in the harvest that
 * generations_begin() made. Large blocks that are mappings do not count: [doubt is full]. */
bool generations_are_in_doubt(void);

/* The marks are cleared outside of a collection: the next is none that relies on them. */
void generations_forget_marks(void);

/* Whether more than half of the blocks that have a part of the page are live. */
bool generations_page_is_used(uintptr_t page);

/* In a minor collection, after the roots: marks what old blocks on pages that are dirty, or not
 * tracked, point to. */
void generations_mark_old(void);

/* The kernel may write to the block that lies at the address, past all protection. */
void generations_kernel_writes(uintptr_t address);

/* Whether a block that is old has a part of the page. */
bool generations_page_has_old(uintptr_t page);

/* After the sweep: the dirty pages with old blocks are protected and clean. unswept: the sweep is a
 * late one, so what is live and has a mark is about to be old. after_cycle: the pages that are
 * clean to DIRTY_CYCLE are protected already, and have not been written since. */
void generations_protect(bool unswept, bool after_cycle);

/* Until the next generations_prepare nothing is tracked, so that writes cost nothing. */
void generations_rest(void);

/* In the child of a fork. */
void generations_fork_child(void);

const struct generations_statistics *generations_statistics(void);

#endif
