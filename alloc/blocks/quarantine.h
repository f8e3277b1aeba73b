/* SPDX-License-Identifier: MIT
 *
 * quarantine.h: blocks that the program has freed and that nobody gets before no pointer to them
 * is seen: the heap's part of gc:free=quarantine.
 *
 *     the program's --free--> retired, overwritten --no pointer is left--> looked at --> free
 *
 * free overwrites a block and sets its retired bit, out of band: nothing in a freed block leads
 * anywhere, neither for the program nor for the heap. A collection marks a retired block that it
 * meets a pointer to, does not follow it, and sweeps the others, which are looked at first: one
 * whose fill has changed was written after its free. A large block loses its pages and all access
 * instead of being filled, where the kernel has that.
 *
 * Where there are no collections blocks *age* instead: whenever so much has been retired, those are
 * freed that had been retired before the last time. That is a delay and no protection.
 *
 * Invariants
 *   retired-is-filled   The retired bit of a small block is set when all of it is filled. So the
 *                       child of a fork, which may find a block half filled that another thread was
 *                       freeing, keeps it as the program's.
 *   closed-with-lock    A large block is retired and closed with the heap's lock: no fork and
 *                       no ageing comes between.
 *   one-retires         The bit is set by an atomic instruction that tells what it was. Of two
 *                       threads that free a block one is told that it was freed.
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

struct slab;

/* What a freed block holds. Eight of it are no address. */
enum { QUARANTINE_FILL = 0xDF };

/* Needs SLAB_OLD_ROWS, and no generations. */
extern bool quarantine_on __attribute__((visibility("hidden")));

/* Retires a block of the program's. A pointer that is none is reported as free would. False: the
 * block is retired already. */
bool quarantine_block(void *block, const char *function);

/* realloc: a block that moves leaves a retired one behind, and none moves by page tables, since the
 * next mapping might get its place. *twice: the block is retired already. */
void *quarantine_resize(void *block, size_t size, bool *twice);

/* Bytes that were retired since the process began; what threads have not counted yet is missing. */
size_t quarantine_retired_bytes(void);

/* Retired blocks of a word of a slab are about to be free: looks at their fill. Needs blocks_lock;
 * threads may run. */
void quarantine_look(const struct slab *slab, size_t word, uint64_t blocks);

/* A block that was written to after its free, `offset` bytes from its start. */
struct quarantine_written {
    const void *block;
    size_t bytes, offset;
};
enum { MOST_WRITTEN = 16 };

/* Takes what was found since the last call, and returns how many; beyond MOST_WRITTEN they are only
 * counted. */
size_t quarantine_take_written(struct quarantine_written written[MOST_WRITTEN]);
uint64_t quarantine_written_blocks(void);

/* From now on blocks age, until a collection succeeds: frees too see to it. Any thread. */
void quarantine_begin_ageing(void);
/* Instead of a collection, in an operation (vm/freeze.h): frees what has aged, if enough was
 * retired since the last time. True: some was freed. No lock is held. */
bool quarantine_age(void);
uint64_t quarantine_aged_blocks(void);

/* A collection has freed blocks, which may be handed out and freed again: their bits are no ages
 * any more. Needs blocks_lock. */
void quarantine_end_ageing(void);

#endif
