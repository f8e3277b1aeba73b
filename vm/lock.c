/* SPDX-License-Identifier: MIT
 *
 * lock.c: the slow half of lock.h.
 */
#include "vm/lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <stdlib.h>

#include "vm/message.h"
#include "vm/syscall.h"

/* Spins that pay on two cores: a refill holds its lock for well under a microsecond. */
enum { SPINS = 100 };

/* Beside the locks, which are initialised data: fork writes all of them, on one page. */
_Atomic uintptr_t forking_thread __attribute__((section(".data")));

static bool this_thread_forks(void)
{
    return atomic_load_explicit(&forking_thread, memory_order_relaxed) == current_thread();
}

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

void lock_acquire_slowly(struct lock *lock)
{
    uintptr_t self = current_thread();
    uintptr_t state = atomic_load_explicit(&lock->state, memory_order_relaxed);
    if ((state & ~LOCK_WAITED_FOR) == self) {
        if (!this_thread_forks() || lock->nested > 0)
            report_signal_handler();
        lock->nested++;
        return;
    }
    for (int spin = 0; spin < SPINS; spin++) {
        uintptr_t expected = 0;
        if (atomic_compare_exchange_weak_explicit(&lock->state, &expected, self,
                                                  memory_order_acquire, memory_order_relaxed))
            return;
        __builtin_ia32_pause();
    }
    for (;;) {
        state = 0;
        /* Others may still sleep, so whoever slept takes the lock as one that is waited for. */
        if (atomic_compare_exchange_strong_explicit(&lock->state, &state, self | LOCK_WAITED_FOR,
                                                    memory_order_acquire, memory_order_relaxed))
            return;
        if ((state & LOCK_WAITED_FOR) ||
            atomic_compare_exchange_strong_explicit(&lock->state, &state, state | LOCK_WAITED_FOR,
                                                    memory_order_relaxed, memory_order_relaxed))
            SYSCALL_4(SYS_futex, futex_word(lock), FUTEX_WAIT_PRIVATE,
                      (uint32_t)(state | LOCK_WAITED_FOR), NULL);
    }
}

void lock_wake(struct lock *lock)
{
    SYSCALL_3(SYS_futex, futex_word(lock), FUTEX_WAKE_PRIVATE, 1);
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
        check(held[rank] == 0 || this_thread_forks());
    held[lock->rank]++;
}

void lock_note_released(const struct lock *lock)
{
    check(held[lock->rank] > 0);
    held[lock->rank]--;
}
#endif
