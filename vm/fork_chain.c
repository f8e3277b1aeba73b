/* SPDX-License-Identifier: MIT
 *
 * fork_chain.c: see fork_chain.h.
 */
#include "vm/fork_chain.h"

#include <stddef.h>

/* By rank. Beside the locks, which are initialised data: what fork writes is on one page. */
static struct lock *chain[LOCK_RANKS] __attribute__((section(".data")));

void fork_chain_add(struct lock *lock)
{
    struct lock **link = &chain[lock->rank];
    while (*link && *link != lock)
        link = &(*link)->next_in_chain;
    *link = lock;
}

static void for_each(enum lock_rank rank, void (*visit)(struct lock *lock))
{
    for (struct lock *lock = chain[rank]; lock; lock = lock->next_in_chain)
        visit(lock);
}

static void acquire(struct lock *lock)
{
    lock_acquire(lock);
}

static void release(struct lock *lock)
{
    lock_release(lock);
}

static void reset(struct lock *lock)
{
    lock_reset(lock);
}

void fork_chain_prepare(void)
{
    for (enum lock_rank rank = 0; rank < LOCK_RANKS; rank++)
        for_each(rank, acquire);
    atomic_store_explicit(&forking_thread, current_thread(), memory_order_relaxed);
}

void fork_chain_parent(void)
{
    atomic_store_explicit(&forking_thread, 0, memory_order_relaxed);
    for (enum lock_rank rank = LOCK_RANKS; rank-- > 0;)
        for_each(rank, release);
}

void fork_chain_child(void (*repair)(void))
{
    atomic_store_explicit(&forking_thread, 0, memory_order_relaxed);
    if (repair)
        repair();
    for (enum lock_rank rank = LOCK_RANKS; rank-- > 0;)
        for_each(rank, reset);
}
