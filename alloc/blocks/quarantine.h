/* SPDX-License-Identifier: MIT
 *
 * quarantine.h: the heap's part of gc:free=quarantine. A block that the program frees waits. It is
 * handed out again only after a collection has met no pointer to it.
 *
 *     the program's --free--> retired, filled --a collection meets no pointer--> released
 *     released --its thread takes the word of free bits--> looked at: free
 *
 * free overwrites a block and sets its retired bit. The bit lies in the slab's record, so a freed
 * block leads nowhere, neither for the program nor for the heap. A collection marks a retired block
 * that it meets a pointer to, and does not follow it. Its sweep releases the other retired blocks:
 * it sets their free bits, and touches no block. A thread looks at the fill of the released blocks
 * of a word when it begins to take blocks by that word. The program is about to write to them
 * anyway. A block whose fill has changed was written after its free, and is told.
 * A large block loses its pages instead, and all access to them where the kernel has that.
 *
 * Where there are no collections blocks *age* instead. From time to time, when enough has been
 * retired, those blocks are released that were retired before the last time. That is a delay and no
 * protection.
 *
 * A thread may be stopped anywhere in free. What a collection finds then:
 *
 *     before the retired bit   the program's block, perhaps half filled. Its address is in a
 *                              register: [on its way] (heap.h). It is kept, and followed.
 *     behind it                a retired block. The thread does not touch it any more, so it may be
 *                              released, even handed out again, before the thread goes on.
 *     a large block            either of the two, since the thread has the heap's lock in between
 *     in frees by age          nothing: they hold the heap's lock. Blocks that are released and not
 *                              free yet have their remote bits, and are no collection's matter.
 *
 * Invariants
 * [retired is filled]   The retired bit of a small block is set when all of it is filled. So the
 *                       child of a fork, which may find a block half filled that another thread was
 *                       freeing, keeps it as the program's.
 * [closed with lock]    A large block is closed, which is to take its access away, by a holder of
 *                       the heap's lock that has just retired it. So no fork, no collection and no
 *                       ageing comes between. In a frozen heap it is retired without the lock, and
 *                       is not closed.
 * [one retires]         The bit is set by an atomic instruction that tells what it was. Of two
 *                       threads that free a block one is told that it was freed. A process with
 *                       one thread reads the bit and then sets it.
 * [retired until free]  A large block that is released by its age has its retired bit until it is
 *                       free. A small one has its retired or its remote bit until then: the remote
 *                       bit is set before the retired bit is cleared, and is cleared last ([remote
 *                       until free], heap.h). So a second free is told all the time.
 *                       Who frees asks the retired bit first, and then whether the block is live.
 * [looked at before use]  A released small block has both its free and its retired bit until
 *                       somebody takes it to look at its fill. A thread clears the retired bit
 *                       first, then looks. Who has stopped the world, or has taken the slab from
 *                       its thread and holds the heap's lock, looks first: nobody else takes such
 *                       a block meanwhile. Nobody hands the block out before it was looked at:
 *                         a thread      clears these retired bits of a word, looks at the blocks,
 *                                       and points its bin at the word. What a collection has
 *                                       released in between it looks at then, before it takes one
 *                                       (find_word, bin.h). A handler's malloc takes blocks that
 *                                       were looked at, unless it comes into that second look
 *                         a collection  releases blocks of words that bins point at. It looks at
 *                                       those itself, while the world is stopped
 *                         a slab that is given up is looked at first, with the heap's lock
 *                       At exit the others are looked at. A thread may begin to use one meanwhile.
 *                       So a block is told only if both bits are still set when it has been read.
 *                       The child of a fork may lack a thread that was about to look. It hands
 *                       such a block out without a look. A write after its free is not told then.
 * [open when free]      A closed block has access again before anybody gets it, or is unmapped.
 *
 * After Ainsworth and Jones, "MarkUs", S&P 2020 (freed blocks wait for a marking that does not meet
 * them), and Erdos, Ainsworth and Jones, "MineSweeper", ASPLOS 2022 (contents are overwritten, so
 * that freed blocks do not keep each other).
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_QUARANTINE_H
#define ALLOTROPE_ALLOC_BLOCKS_QUARANTINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/blocks/fill.h"

/* Needs SLAB_OLD_ROWS, and no generations. */
extern bool quarantine_on __attribute__((visibility("hidden")));

/* Retires a block of the program's. What is no block is reported as free would. False: the block is
 * retired already. */
bool quarantine_block(void *block, const char *function);

/* realloc. A block that moves is copied, and the old one is retired. None moves by page tables,
 * since the next mapping might get the old addresses. *twice: the block is retired already. */
void *quarantine_resize(void *block, size_t size, bool *twice);

/* Bytes that were retired since the process began, but for what threads have not counted yet. */
size_t quarantine_retired_bytes(void);

/* How often blocks were released, by collections and by their age. A block is retired again only
 * after the number has grown. Any thread. */
uint64_t quarantine_releases(void);

/* The calling thread's word for a log of its frees. NULL: it has none. */
_Atomic uint64_t *quarantine_place_in_log(void);

/* From now on blocks age, until a collection succeeds. Frees look whether it is time. Any thread.
 */
void quarantine_begin_ageing(void);
/* Instead of a collection, in an operation (vm/freeze.h): releases what has aged, if enough was
 * retired since the last time. True: some was released. No lock is held. */
bool quarantine_age(void);
uint64_t quarantine_aged_blocks(void);

/* A collection is about to release blocks. They may be handed out and retired again, so a bit no
 * longer tells a block's age. Needs blocks_lock. */
void quarantine_end_ageing(void);

#endif
