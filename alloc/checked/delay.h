/* SPDX-License-Identifier: MIT
 *
 * delay.h: dead blocks of a thread, which wait before they become free.
 *
 *     free    the block takes a place at random; the one that was there becomes free
 *
 * So the block itself is never free at once, and when it will be is not to be foreseen. (OpenBSD's
 * malloc delays its frees so.) Only blocks of the thread's own slabs wait: [owning thread writes]
 * of alloc/blocks/heap.h. A fork may lose one block of each thread to the child.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_DELAY_H
#define ALLOTROPE_ALLOC_CHECKED_DELAY_H

#include <stdint.h>

#include "alloc/blocks/slabs.h"

enum { DELAYED = 32 };

struct delay {
    struct delay *next; /* of all */
    bool has_thread;
    void *blocks[DELAYED];
};

struct thread_delay {
    struct delay *delay;
    uint64_t random;
};

extern __thread struct thread_delay thread_delay
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* For a thread's first free. */
void delay_start(void) __attribute__((noinline));
/* The blocks go to their slabs. */
void delay_thread_exit(void);
/* So do those of the threads that the child does not have. Before their slabs are abandoned. */
void delay_fork_child(void);

/* Six bits and more that a thread's next allocation depends on (Knuth's MMIX generator; its high
 * bits are the good ones). */
static inline unsigned delay_random(void)
{
    thread_delay.random =
        thread_delay.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(thread_delay.random >> 40);
}

/* A dead block of the thread's, of that bin. */
static inline void delay_free(struct bin *bin, void *block)
{
    if (__builtin_expect(!thread_delay.delay, 0))
        delay_start();
    if (thread_delay.delay) {
        void **place = &thread_delay.delay->blocks[delay_random() % DELAYED];
        void *evicted = *place;
        *place = block;
        block = evicted;
    }
    if (!block)
        return;
    int32_t room = bin->local_free_room; /* nothing is in the local free list, and it stays so */
    free_to_slab(bin, block);
    bin->local_free_room = room;
}

#endif
