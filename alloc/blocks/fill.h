/* SPDX-License-Identifier: MIT
 *
 * fill.h: what freed blocks in quarantine hold, and whether it is whole.
 *
 * When somebody must look, quarantine.h says: [looked at before use].
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_FILL_H
#define ALLOTROPE_ALLOC_BLOCKS_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slab;

/* What a freed block holds. Eight of it are no address. */
enum { QUARANTINE_FILL = 0xDF };

typedef uint64_t fill_words __attribute__((vector_size(16), may_alias));
static const uint64_t FILL_WORD = UINT64_C(0x0101010101010101) * QUARANTINE_FILL;

/* Looks at the fill of retired blocks of a word of a slab, which are about to be handed out. Needs
 * blocks_lock; threads may run. */
void quarantine_look(const struct slab *slab, size_t word, uint64_t blocks);

/* Looks at the fill of the released blocks of a word, and clears their retired bits. The calling
 * thread's bin points at the word or is about to, and the thread has not taken one of these blocks
 * yet. The heap's lock is not held. What is found is told at once. */
void quarantine_look_before_use(struct slab *slab, size_t word);

/* Looks at the fill of all released blocks of a slab, and clears their retired bits. The heap's
 * lock is held. Nobody takes blocks of the slab: it is given up. */
void quarantine_look_before_drop(struct slab *slab);

/* Looks at the fill of the released blocks of the words that bins point at, and clears their
 * retired bits. The world is stopped. */
void quarantine_look_at_current(void);

/* Looks at all released blocks, and leaves them as they are. At exit, which a handler may call that
 * has interrupted malloc. False: the heap's lock is not to be had. */
bool quarantine_look_at_released(void);

/* Called when a thread has found a written block. The heap's lock is not held, the common heap's
 * perhaps. */
extern void (*quarantine_found_written)(void) __attribute__((visibility("hidden")));

/* A block that was written to after its free, `offset` bytes from its start. */
struct quarantine_written {
    const void *block;
    size_t bytes, offset;
};
enum { MOST_WRITTEN = 16 };

/* Takes what was found since the last call. Returns how many blocks that were; `written` gets the
 * first MOST_WRITTEN of them. */
size_t quarantine_take_written(struct quarantine_written written[MOST_WRITTEN]);
uint64_t quarantine_written_blocks(void);

#endif
