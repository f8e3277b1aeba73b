/* SPDX-License-Identifier: MIT
 *
 * lock.h: a ranked mutual-exclusion lock on a futex.
 *
 * Our own, because a pthread mutex may be interposed, instrumented or not yet ready. A thread may
 * only take a lock of a higher rank than those it holds; debug builds check it. A thread that
 * asks for a lock it already holds (malloc in a signal handler that interrupted malloc) would
 * wait for ever: it is told so, and aborts.
 *
 * The state is 0 while the lock is free, else the holder's thread pointer, with LOCK_WAITED_FOR
 * added once somebody waits (after Drepper, "Futexes Are Tricky", 2011, 5). Holder and state are
 * one word. Between two words a signal handler might come: it would find a lock that is held, but
 * not by its own thread yet, and would wait for ever.
 *
 * While a thread forks it holds the locks of fork_chain.h, with LOCK_FROZEN added. The first lock
 * that malloc or free take is taken by lock_enter, which does not wait then (freeze.h). All others
 * are taken by lock_acquire. A thread that holds a lock already meets no frozen one, because fork
 * takes the locks upwards too. Statistics and walks take them by lock_acquire, and wait.
 */
#ifndef ALLOTROPE_VM_LOCK_H
#define ALLOTROPE_VM_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In the order in which a thread may take them. Fork takes all of them in this order, see
 * fork_chain.h. */
enum lock_rank {
    RANK_SITES = 1, /* the observer of allocation sites */
    RANK_ACCOUNT,   /* the observer that keeps the statistics; resolving the route */
    RANK_REGISTRY,  /* arenas and thread caches; in blocks the common heap */
    RANK_COLLECTOR, /* gc: one collection at a time */
    RANK_DEPOT,     /* chains of free blocks between thread caches and arenas */
    RANK_ARENA,     /* one heap: an arena's, that of blocks, that of gc:classic */
    RANK_LARGE,     /* blocks that are mapped one by one */
    RANK_ROOTS,     /* what the program wants to be roots (asked_roots.h) */
    RANK_PAGES,     /* metadata; the window */
    LOCK_RANKS
};

struct lock {
    _Atomic uintptr_t state;
    uint32_t rank;
    uint32_t nested;                    /* how often the thread that forks took it again */
    struct lock *_Atomic next_in_chain; /* of its rank; see fork_chain.h */
};

/* Thread pointers are aligned, which leaves the lowest bits. */
#define LOCK_WAITED_FOR ((uintptr_t)1)
#define LOCK_FROZEN ((uintptr_t)2)
#define LOCK_FLAGS (LOCK_WAITED_FOR | LOCK_FROZEN)

#define LOCK_INITIALIZER(lock_rank) \
    {                               \
        .rank = (lock_rank)         \
    }

/* Says that a signal handler allocated while it interrupted the allocator, and aborts. */
_Noreturn void report_signal_handler(void);

bool lock_enter_slowly(struct lock *lock);
void lock_acquire_slowly(struct lock *lock);
void lock_wake(struct lock *lock);
/* For fork_chain.c: freezes a lock that the thread holds, and wakes all who sleep on it.
 * lock_release thaws it. */
void lock_freeze(struct lock *lock);
#ifndef NDEBUG
void lock_note_acquired(const struct lock *lock);
void lock_note_tried(const struct lock *lock);
void lock_note_released(const struct lock *lock);
#else
#define lock_note_acquired(lock) ((void)0)
#define lock_note_tried(lock) ((void)0)
#define lock_note_released(lock) ((void)0)
#endif

static inline uintptr_t current_thread(void)
{
    uintptr_t thread_pointer;
    __asm__("mov %%fs:0, %0" : "=r"(thread_pointer));
    return thread_pointer;
}

/* Whether the calling thread holds the lock: asked by what may have interrupted the holder. Not
 * while a fork has frozen the lock: then nobody need wait for it. */
static inline bool lock_is_own(const struct lock *lock)
{
    uintptr_t state = atomic_load_explicit(&lock->state, memory_order_relaxed);
    return (state & ~LOCK_WAITED_FOR) == current_thread();
}

/* Takes the first lock of an operation. False: the heap is frozen (freeze.h), the lock is not
 * taken, and the frozen way ends with frozen_end. The thread that thaws the heap takes again what
 * it holds. */
static inline bool lock_enter(struct lock *lock)
{
    uintptr_t expected = 0;
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &expected, current_thread(),
                                                 memory_order_acquire, memory_order_relaxed) &&
        !lock_enter_slowly(lock))
        return false;
    lock_note_acquired(lock);
    return true;
}

/* Takes the lock if nobody holds it. Never waits, so the order of ranks does not matter. False: it
 * is held. */
static inline bool lock_try(struct lock *lock)
{
    uintptr_t expected = 0;
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &expected, current_thread(),
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    lock_note_tried(lock);
    return true;
}

/* Takes a lock. Waits for the end of a fork. The thread that forks takes again what it holds: its
 * fork handlers may look in from outside. */
static inline void lock_acquire(struct lock *lock)
{
    uintptr_t expected = 0;
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &expected, current_thread(),
                                                 memory_order_acquire, memory_order_relaxed))
        lock_acquire_slowly(lock);
    lock_note_acquired(lock);
}

static inline void lock_release(struct lock *lock)
{
    if (__builtin_expect(lock->nested > 0, 0)) {
        lock->nested--;
        return;
    }
    lock_note_released(lock);
    if (atomic_exchange_explicit(&lock->state, 0, memory_order_release) & LOCK_WAITED_FOR)
        lock_wake(lock);
}

/* Makes a lock free in the child of a fork. The child's one thread took it in the parent, under the
 * same thread pointer. Nobody in the child can be waiting for it. */
static inline void lock_reset(struct lock *lock)
{
    lock_note_released(lock);
    atomic_store_explicit(&lock->state, 0, memory_order_release);
}

#endif
