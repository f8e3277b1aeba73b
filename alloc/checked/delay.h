/* SPDX-License-Identifier: MIT
 *
 * delay.h: dead blocks of a thread, which wait before they become free.
 *
 *     free    the block takes a place at random; the one that was there becomes free
 *
 * So the block itself is never free at once, and when it will be is not to be foreseen. (OpenBSD's
 * malloc delays its frees so.) Only blocks of the thread's own slabs wait: [owning thread writes]
 * of alloc/blocks/heap.h.
 *
 * Writer of a delay: its thread; in the child of a fork the one thread that there is. A delay comes
 * into the list of all by a compare-exchange, and stays. A thread that is stopped between a place's
 * store and the free bit of the block that had it has that block in a register. The child of a fork
 * loses the block: one for each thread.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_DELAY_H
#define ALLOTROPE_ALLOC_CHECKED_DELAY_H

#include <stdint.h>

#include "alloc/blocks/slabs.h"
#include "vm/random.h"

enum { DELAYED = 32 };

/* A thread heap's, for good. */
struct delay {
    struct delay *next; /* of all */
    uint64_t random;    /* a sequence (vm/random.h) */
    void *blocks[DELAYED];
};

/* For a thread heap's first free. */
void delay_start(void) __attribute__((noinline));
/* The blocks go to their slabs. */
void delay_thread_exit(void);
/* So do those of the threads that the child does not have. Before their slabs are abandoned. */
void delay_fork_child(void);

/* Whether a block waits, in whichever thread. Any thread. */
bool delay_holds(const void *block);

/* 24 bits that a thread's next allocation depends on. Zero before the thread's first free. */
static inline unsigned delay_random(void)
{
    struct delay *delay = thread_heap->delay;
    return delay ? random_step(&delay->random) : 0;
}

/* Puts a dead block of the thread's in the place of another, which becomes free. bin: the block's.
 * The other may be of any bin. */
static inline void delay_free(struct bin *bin, void *block)
{
    if (__builtin_expect(!thread_heap->delay, 0))
        delay_start();
    if (thread_heap->delay) {
        void **place = &thread_heap->delay->blocks[delay_random() % DELAYED];
        void *evicted = *place;
        __atomic_store_n(place, block, __ATOMIC_RELEASE);
        block = evicted;
    }
    if (!block)
        return;
    int32_t room = bin->local_free_room; /* nothing is in the local free list, and it stays so */
    free_to_slab(bin, block);
    bin->local_free_room = room;
}

#endif
