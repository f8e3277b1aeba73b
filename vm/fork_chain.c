/* SPDX-License-Identifier: MIT
 *
 * fork_chain.c: see fork_chain.h.
 */
#include "vm/fork_chain.h"

#include <stddef.h>

#include "vm/deferred.h"
#include "vm/freeze.h"
#include "vm/signals.h"
#include "vm/written.h"

/* By rank. */
static WRITTEN_AT_START struct lock *_Atomic chain[LOCK_RANKS];

/* Whether this thread's fork froze the heap, and how many forks of signal handlers interrupt it. */
static __thread bool is_prepared __attribute__((tls_model("initial-exec")));
static __thread uint16_t nested __attribute__((tls_model("initial-exec")));

void fork_chain_add(struct lock *lock)
{
    struct lock *_Atomic *link = &chain[lock->rank];
    while (*link && *link != lock)
        link = &(*link)->next_in_chain;
    *link = lock;
}

static void for_each(enum lock_rank rank, void (*visit)(struct lock *lock))
{
    for (struct lock *lock = chain[rank]; lock; lock = lock->next_in_chain)
        visit(lock);
}

static void for_all_downwards(void (*visit)(struct lock *lock))
{
    for (enum lock_rank rank = LOCK_RANKS; rank-- > 0;)
        for_each(rank, visit);
}

static bool is_held_by_this_thread(const struct lock *lock)
{
    return (atomic_load_explicit(&lock->state, memory_order_relaxed) & ~LOCK_FLAGS) ==
           current_thread();
}

/* Other threads may add locks meanwhile, which this one does not hold. */
static bool holds_a_lock(void)
{
    for (enum lock_rank rank = 0; rank < LOCK_RANKS; rank++)
        for (const struct lock *lock = chain[rank]; lock; lock = lock->next_in_chain)
            if (is_held_by_this_thread(lock))
                return true;
    return false;
}

bool fork_chain_is_interrupted(void)
{
    return !heap_is_frozen_by_this_thread() && (operation_is_interrupted() || holds_a_lock());
}

/* [own handlers]. The stop's signal is left: this thread waits for operations that may wait for a
 * collection. */
static uint64_t block_signals(void)
{
    return signals_block(signals_of_program());
}

/* Before the fork. */

/* Of a rank in any order: [one of a rank]. */
static void take(struct lock *lock)
{
    lock_acquire(lock);
    lock_freeze(lock);
}

void fork_chain_prepare(void)
{
    if (forking_thread == current_thread()) {
        nested++;
        return;
    }
    is_prepared = !fork_chain_is_interrupted(); /* [own operation] */
    if (!is_prepared)
        return;
    uint64_t signals = block_signals();
    freeze_begin();
    for (enum lock_rank rank = 0; rank < LOCK_RANKS; rank++)
        for_each(rank, take);
    freeze_end();
    signals_restore(signals);
}

/* After it. */

void fork_chain_parent(void)
{
    if (nested > 0) {
        nested--;
    } else if (is_prepared) {
        uint64_t signals = block_signals();
        thaw_begin();
        deferred_run();
        for_all_downwards(lock_release);
        thaw_end();
        signals_restore(signals);
    }
}

/* In the child nobody waits for a lock. What the other threads hold is in no state to rely on, but
 * nobody would ever give it back. */
static void take_from_others(struct lock *lock)
{
    if (is_held_by_this_thread(lock))
        atomic_fetch_and(&lock->state, ~LOCK_WAITED_FOR);
    else
        atomic_store(&lock->state, 0);
}

void fork_chain_child(void (*repair)(void))
{
    forget_marks_of_others();
    if (nested > 0) {
        nested--;
        for_all_downwards(take_from_others);
    } else if (is_prepared) {
        uint64_t signals = block_signals();
        thaw_begin();
        if (repair)
            repair();
        deferred_run();
        for_all_downwards(lock_reset);
        thaw_end();
        signals_restore(signals);
    } else {
        for_all_downwards(take_from_others);
        thaw_end();
    }
}
