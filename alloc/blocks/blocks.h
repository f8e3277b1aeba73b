/* SPDX-License-Identifier: MIT
 *
 * blocks.h: today's segregated fit, and the heap under the collector. heap.h is its design, fast.c
 * its fast paths.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_BLOCKS_H
#define ALLOTROPE_ALLOC_BLOCKS_BLOCKS_H

#include "alloc/allocator.h"
#include "alloc/blocks/slab.h"

extern const struct allocator blocks_default;

/* The functions of that table, as struct allocator says; for whoever builds on them. */
void *blocks_alloc(size_t size);
void *blocks_alloc_zeroed(size_t size);
void *blocks_alloc_aligned(size_t alignment, size_t size);
void blocks_free(void *block);
void *blocks_resize(void *block, size_t size);
size_t blocks_usable_size(const void *block);
struct block_waste blocks_waste(const void *block);
bool blocks_owns(const void *address);
void blocks_fork_child(void);
void blocks_thread_exit(void);
size_t blocks_trim(void);
void blocks_statistics(struct allocator_statistics *statistics);
size_t blocks_cached_bytes(void);
void blocks_walk(heap_visitor *visit, void *argument);
bool blocks_is_valid(void);
void blocks_tune(enum tuning parameter, size_t value);

/* All of struct allocator that is the same with and without a collector. */
#define BLOCKS_FUNCTIONS                                                           \
    .waste = blocks_waste, .owns = blocks_owns, .thread_exit = blocks_thread_exit, \
    .statistics = blocks_statistics, .cached_bytes = blocks_cached_bytes,          \
    .is_valid = blocks_is_valid, .tune = blocks_tune

struct blocks_options {
    uint64_t retain_percent;
};

/* Rows of a preset's table. */
#define BLOCKS_OPTIONS(at)                                                                       \
    {                                                                                            \
        "retain", "percent of the memory in use that may stay with the heap while it is free",   \
            NUMBER_IN(at, struct blocks_options, retain_percent), .maximum = 1000, .initial = 25 \
    }

/* What a collector on top is asked. The caller does not hold the heap's lock, but may hold the one
 * of the common heap (heap.h). */
enum growth {
    GROW,   /* take the memory */
    RETRY,  /* a collection has freed blocks: look again first */
    REFUSE, /* out of memory */
};

/* Who sweeps a slab late: in a stopped world; its owning thread; another thread. */
enum sweeper { SWEEPER_STOPPED, SWEEPER_OWNER, SWEEPER_OTHER };

struct blocks_collector {
    /* Before the heap takes `bytes` more from its space, at a multiple of `alignment`: may run a
     * collection. tries: how often it was called for this very request. exhausted: the kernel has
     * refused. */
    enum growth (*before_growth)(size_t alignment, size_t bytes, unsigned tries, bool exhausted);
    /* Before a thread goes on to its next stock of free blocks: runs a collection, or a slice of
     * one, if one is due. True: blocks were freed, look again. NULL: only growth counts. */
    bool (*collect_if_due)(void);
    /* Before every allocation; NULL unless the collector must see each one, which then all go
     * the slow way. */
    void (*before_allocation)(void);
    /* The program has handed a suspect to a function of malloc's: it hides pointers. Any thread, no
     * lock held. NULL: there are no suspects. */
    void (*suspect_used)(const void *block, size_t bytes, const char *function);
    /* Whether a collection has ever reclaimed a block that the program had not freed: a bad pointer
     * may be to one. Any thread, no lock. NULL: none has. */
    bool (*has_reclaimed)(void);
    /* realloc has copied `block` to `moved`, and frees `block` next. Any thread, no lock. NULL: the
     * collector needs not know. */
    void (*moves)(const void *block, const void *moved);
    /* Number of rows of bits behind a record's words (slab.h); 0: the least. */
    unsigned rows;
    /* A sweep leaves the live bits of what it frees as they are: [late live bit]. Only for a
     * collector that hands no free of the program's to blocks_free, but those of pinned blocks. */
    bool late_live_bits;
    /* Sweeps a slab that a late sweep has left, see late_sweep.h. Holds the heap's lock, or the
     * world is stopped. NULL: no sweep is late. */
    void (*sweep_late)(struct slab *slab, enum sweeper sweeper);
};

/* retain_percent: see runs.h. collector: NULL for none. False: the kernel refuses memory. */
bool blocks_init(unsigned retain_percent, const struct blocks_collector *collector);

/* As blocks_free, but never by the live bit alone: right for an address whose live bit is late. */
void blocks_free_by_slab(void *block);

/* Clears the live bits of blocks of a word of a slab. last: no other block of the word is the
 * program's, so the live bits of all may be cleared. */
void blocks_clear_live(const struct slab *slab, size_t word, uint64_t blocks, bool last);

/* See late_live_bits. */
bool blocks_has_late_live_bits(void);

/* While the world is stopped: sets the free bits of the blocks in all local free lists, so that
 * what they link to is not kept; false: clears them again. */
void blocks_set_local_free_bits(bool free);

/* For the collector. Between these no slab comes, goes or changes its shape, and nobody else
 * holds the heap's lock; bits change as heap.h says. */
void blocks_lock(void);
void blocks_unlock(void);

/* Visits every slab in use, in no particular order. Needs blocks_lock. */
void blocks_each_slab(void (*visit)(void *argument, struct slab *slab), void *argument);

/* Like blocks_each_slab(), but takes blocks_lock itself. For the end of the process, where a signal
 * handler may have called exit while it interrupted malloc. False: the lock is not to be had, and
 * nothing was visited. */
bool blocks_each_slab_at_exit(void (*visit)(void *argument, struct slab *slab), void *argument);

/* Like blocks_each_slab(), but for a visitor that looks at nearly all bits. The records of a large
 * heap are in no cache, and what is done with one is shorter than the wait for it. So each record
 * is fetched while the one before is visited. */
void blocks_each_slab_by_bits(void (*visit)(void *argument, struct slab *slab), void *argument);

/* Visits a part of the slabs in use: those among the next `most` records after the parts before.
 * *next is 0 at first. Blocks that were made during a fork are not visited: blocks_each_of_fork.
 * Between two parts slabs may come and go. A slab that was there at the first part is visited,
 * maybe twice. False: there is no more. Needs blocks_lock. */
bool blocks_some_slabs(size_t *next, size_t most, void (*visit)(void *argument, struct slab *slab),
                       void *argument);

/* The bits have been swept: frees the large blocks that are dead, and has each thread look
 * through its slabs again when it next needs one. Needs blocks_lock; threads may run. */
void blocks_swept(void);

/* Whether a block may have been freed, other than by a sweep, since blocks_forget_frees was called.
 * If a thread is stopped while it frees a block, either the answer is true or the thread has the
 * block in a register. Without late_live_bits the answer is always true. blocks_forget_frees needs
 * a stopped world. */
bool blocks_have_freed(void);
void blocks_forget_frees(void);

/* A sweep that leaves the slabs to their threads: see late_sweep.h. */

/* The world is stopped, and every block that is not live has its mark. Sweeps at once the slabs
 * that threads take blocks of. */
void blocks_begin_late_sweep(void);
/* As blocks_swept. The large blocks are swept here. */
void blocks_swept_late(void);
/* Sweeps what is left. Needs blocks_lock; threads may run. */
void blocks_sweep_rest(void);
/* A part of it, as blocks_some_slabs. */
bool blocks_sweep_some(size_t *next, size_t most);

/* Young slabs (young.c), for a collector that wants SLAB_OLD_ROWS. Needs blocks_lock and a stopped
 * world, unless it says otherwise. This one needs blocks_lock alone. */
void blocks_each_young(void (*visit)(void *argument, struct slab *slab), void *argument);
/* Any thread, no lock. */
void blocks_enter_young(struct slab *slab);
/* False: a thread was stopped before it has pushed a slab, so the young ones are not all listed. */
bool blocks_young_are_listed(void);
/* Empties the list of young slabs, and visits each slab that was on it unless `visit` is NULL. The
 * visitor may enter the slab again. */
void blocks_take_young(void (*visit)(void *argument, struct slab *slab), void *argument);
/* At the end of a collection: enters every current slab, and every slab with blocks in a local free
 * list. Threads take blocks of these without entering them. */
void blocks_enter_threads_slabs(void);
/* Large blocks that were made during a fork: blocks_each_range leaves them out. Needs blocks_lock
 * alone. */
void blocks_each_of_fork(void (*visit)(void *argument, struct slab *slab), void *argument);
/* From now on all blocks of a new slab are marked and unborn, or no longer. Needs SLAB_UNBORN_ROWS
 * and blocks_lock. */
void blocks_mark_newborn(bool mark);
/* From now on each block that is freed, other than by a sweep, becomes unborn before it is free, or
 * no longer. Needs SLAB_UNBORN_ROWS, late_live_bits and a stopped world to begin. */
void blocks_note_freed(bool note);
/* Blocks of the slab were swept: its thread is to rebin it. */
void blocks_offer(struct slab *slab);
/* As blocks_swept, after a sweep of the young slabs alone. Needs blocks_lock; threads may run. */
void blocks_young_swept(void);

/* All memory that blocks may lie in, but for blocks that were made during a fork. mapping: the
 * large block; NULL for the heap's own space, whose end may have grown. Needs blocks_lock; in the
 * same order each time, unless mappings come or go. */
typedef void blocks_range_visitor(void *argument, const char *start, const char *end,
                                  const struct slab *mapping);
void blocks_each_range(blocks_range_visitor *visit, void *argument);

/* Gives the blocks in the calling thread's local free lists to their slabs, and rebins these after
 * a sweep and where other threads have freed blocks, so that what is empty serves any size. No lock
 * held. */
void blocks_flush_thread(void);

/* Bytes taken from the heap's space, by whole granules, large blocks included. */
size_t blocks_used_bytes(void);

/* So many free bytes may keep their memory however small the heap is: what a collection has freed
 * will be taken again before the next. Needs blocks_lock. */
void blocks_retain(size_t bytes);

/* Bytes that threads have taken to hand out since the process began, whatever was freed. Counted
 * only if the collector has collect_if_due. With a quarantine: that they have retired. */
size_t blocks_taken_bytes(void);

/* For a free that is ignored: the block stays the program's, but a collection does not follow what
 * is in it. A pointer that is not a live block is reported, as free would. */
void blocks_retire(const void *block, const char *function);

/* For a realloc that leaves a block where it is: the program uses it, so it is not retired any
 * more. A suspect is told, and what is no block is reported. blocks_resize does so itself. */
void blocks_use_again(const void *block);

/* Clears the retired bit of a live block before a free that counts and takes the fast path, which
 * does not look at that bit. */
void blocks_unretire(const void *block);

/* The memory of the heap's own state. An address of a block in it is no use of the block. */
void blocks_state(const void **start, size_t *bytes);

/* The slab of any address within a slab's blocks, NULL when it lies in none. */
struct slab *blocks_slab_of(const void *address);

#endif
