/* SPDX-License-Identifier: MIT
 *
 * lock.c: the slow half of lock.h.
 */
#include "vm/lock.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "vm/freeze.h"
#include "vm/message.h"
#include "vm/syscall.h"

/* So many spins pay off on two processors: a refill holds its lock for well under a microsecond. */
enum { SPINS = 100 };

void report_signal_handler(void)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "a signal handler called malloc or free while it interrupted malloc "
                           "or free in the same thread; POSIX forbids it, and going on would "
                           "wait for ever");
    message_send(&message);
    abort();
}

/* The kernel compares 32 bits: the lower half of the state. */
static uint32_t *futex_word(struct lock *lock)
{
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half comes first");
    return (uint32_t *)&lock->state;
}

/* For a lock that this thread holds. */
static void take_again(struct lock *lock)
{
    if (!heap_is_frozen_by_this_thread() || lock->nested > 0)
        report_signal_handler();
    lock->nested++;
}

/* Sleeps unless the lock has changed, for 10 ms at most. A sleeper must wake by itself: a release
 * wakes one thread, which may first run a signal handler that forks, and that fork waits for the
 * operations of all who sleep here. Others wait for a thread that forks, so it sleeps for 1 ms at
 * most. */
static void sleep_on(struct lock *lock, uintptr_t state)
{
    static const struct timespec a_moment = {.tv_nsec = 1000000}, a_while = {.tv_nsec = 10000000};
    const struct timespec *most = forking_thread == current_thread() ? &a_moment : &a_while;
    if ((state & LOCK_WAITED_FOR) ||
        atomic_compare_exchange_strong_explicit(&lock->state, &state, state | LOCK_WAITED_FOR,
                                                memory_order_relaxed, memory_order_relaxed))
        SYSCALL_4(SYS_futex, futex_word(lock), FUTEX_WAIT_PRIVATE,
                  (uint32_t)(state | LOCK_WAITED_FOR), most);
}

/* False: the lock is frozen, and the thread need not wait for it. */
static bool take_slowly(struct lock *lock, bool is_first)
{
    uintptr_t self = current_thread(), mine = self;
    for (unsigned turn = 0;; turn++) {
        uintptr_t state = 0;
        if (atomic_compare_exchange_strong_explicit(&lock->state, &state, mine,
                                                    memory_order_acquire, memory_order_relaxed))
            return true;
        if (is_first && (state & LOCK_FROZEN)) {
            if (frozen_begin()) {
                /* A release wakes one thread and relies on its taking the lock. This one does not,
                 * so it wakes the next. */
                if (mine & LOCK_WAITED_FOR)
                    lock_wake(lock);
                return false;
            }
            if ((state & ~LOCK_FLAGS) != self)
                continue;
        }
        if ((state & ~LOCK_FLAGS) == self) {
            take_again(lock);
            return true;
        }
        if (turn < SPINS) {
            __builtin_ia32_pause();
        } else {
            sleep_on(lock, state);
            /* Others may still sleep: a thread that has slept takes the lock with
             * LOCK_WAITED_FOR. */
            mine = self | LOCK_WAITED_FOR;
        }
    }
}

bool lock_enter_slowly(struct lock *lock)
{
    return take_slowly(lock, true);
}

void lock_acquire_slowly(struct lock *lock)
{
    take_slowly(lock, false);
}

void lock_wake(struct lock *lock)
{
    SYSCALL_3(SYS_futex, futex_word(lock), FUTEX_WAKE_PRIVATE, 1);
    freezing_pause();
}

/* Wakes all sleepers: those that have come by lock_enter need not wait for a frozen lock. */
void lock_freeze(struct lock *lock)
{
    if (atomic_fetch_or(&lock->state, LOCK_FROZEN) & LOCK_WAITED_FOR)
        SYSCALL_3(SYS_futex, futex_word(lock), FUTEX_WAKE_PRIVATE, INT_MAX);
}

#ifndef NDEBUG
/* How many locks of each rank this thread holds. Arenas share a rank, because fork takes them
 * all; outside fork a thread holds one at a time. A thread in fork holds them all and takes what
 * it likes. */
static __thread uint8_t held[LOCK_RANKS] __attribute__((tls_model("initial-exec")));

void lock_note_acquired(const struct lock *lock)
{
    if (lock->nested > 0)
        return;
    for (uint32_t rank = lock->rank + 1; rank < LOCK_RANKS; rank++)
        check(held[rank] == 0 || heap_is_frozen_by_this_thread());
    held[lock->rank]++;
}

void lock_note_tried(const struct lock *lock)
{
    held[lock->rank]++;
}

void lock_note_released(const struct lock *lock)
{
    check(held[lock->rank] > 0);
    held[lock->rank]--;
}
#endif
