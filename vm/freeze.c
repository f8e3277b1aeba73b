/* SPDX-License-Identifier: MIT
 *
 * freeze.c: see freeze.h.
 *
 * A mark is the thread's pointer in one of a few words. A thread begins its search for a free word
 * at a place that its pointer chooses, so threads seldom meet. Marks are words and not counters, so
 * that a signal handler can tell its own thread's marks from those of others.
 */
#include "vm/freeze.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <time.h>

#include "vm/lock.h"
#include "vm/message.h"
#include "vm/syscall.h"
#include "vm/written.h"

enum { MARKS_IN_LINE = 8, LINE_BITS = 3, MARKS = MARKS_IN_LINE << LINE_BITS, SPINS = 100 };

/* A search that a handler interrupts may miss a mark that the handler has moved. */
enum { SEARCHES = 1000 };

/* Added to the mark of a thread that goes the frozen way. */
#define MARK_FROZEN ((uintptr_t)1)

enum heap_state { IN_USE, FREEZING, FROZEN, THAWING };

/* Beside the locks, which are initialised data: fork writes all of them, on few pages. */
WRITTEN_AT_START _Atomic uintptr_t forking_thread;
static WRITTEN_AT_START _Atomic uint32_t heap_state;
static WRITTEN_AT_START _Atomic uintptr_t marks[MARKS] __attribute__((aligned(64)));

/* Waiting. */

static void wait_for_state_other_than(uint32_t state)
{
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load(&heap_state) != state)
            return;
        __builtin_ia32_pause();
    }
    SYSCALL_4(SYS_futex, &heap_state, FUTEX_WAIT_PRIVATE, state, NULL);
}

static void set_state_and_wake(enum heap_state state)
{
    atomic_store(&heap_state, state);
    SYSCALL_3(SYS_futex, &heap_state, FUTEX_WAKE_PRIVATE, INT_MAX);
}

/* Waits a moment for a mark to change: spins, then sleeps 50 microseconds at a time. Nobody is
 * woken when a mark changes, so that an operation's end stays cheap. */
static void wait_for_mark(const _Atomic uintptr_t *mark, unsigned turn)
{
    const struct timespec a_moment = {.tv_nsec = 50000};
    if (turn < SPINS)
        __builtin_ia32_pause();
    else
        SYSCALL_4(SYS_futex, mark, FUTEX_WAIT_PRIVATE, (uint32_t)atomic_load(mark), &a_moment);
}

/* Marks. */

static size_t first_place(uintptr_t thread)
{
    return (size_t)((thread >> 6) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - LINE_BITS)) *
           MARKS_IN_LINE;
}

static void set_mark(uintptr_t mark)
{
    size_t first = first_place(current_thread());
    for (unsigned turn = 0;; turn++) {
        for (size_t i = 0; i < MARKS; i++) {
            _Atomic uintptr_t *place = &marks[(first + i) % MARKS];
            uintptr_t none = 0;
            if (atomic_load_explicit(place, memory_order_relaxed) == 0 &&
                atomic_compare_exchange_strong(place, &none, mark))
                return;
        }
        wait_for_mark(&marks[first], turn); /* more operations at once than there are marks */
    }
}

static unsigned count_marks(uintptr_t mark)
{
    unsigned count = 0;
    for (size_t i = 0; i < MARKS; i++)
        count += atomic_load_explicit(&marks[i], memory_order_relaxed) == mark;
    return count;
}

/* The search and the change are two steps. A signal handler in between may remove this mark and
 * leave an equal one elsewhere; another thread may have the place by then. So a place is changed
 * only if it still has the mark. */
static void change_mark(uintptr_t from, uintptr_t to)
{
    size_t first = first_place(current_thread());
    for (unsigned searches = 0; searches < SEARCHES; searches++)
        for (size_t i = 0; i < MARKS; i++) {
            _Atomic uintptr_t *place = &marks[(first + i) % MARKS];
            uintptr_t mark = from;
            if (atomic_load_explicit(place, memory_order_relaxed) == from &&
                atomic_compare_exchange_strong(place, &mark, to))
                return;
        }
    check(false);
}

static bool is_of_other_thread(uintptr_t mark)
{
    return mark != 0 && (mark & ~MARK_FROZEN) != current_thread();
}

/* Operations. */

enum way { WAY_ORDINARY, WAY_FROZEN, WAY_BLOCKED };

/* The way of a thread that has set its mark. A handler that interrupts an operation of its own
 * thread goes the same way as the operation, because fork waits until that has ended. */
static enum way way_in(uint32_t state)
{
    uintptr_t self = current_thread();
    if (state == FROZEN)
        return WAY_FROZEN;
    if (state == IN_USE || forking_thread == self || count_marks(self) > 1)
        return WAY_ORDINARY;
    return count_marks(self | MARK_FROZEN) > 0 ? WAY_FROZEN : WAY_BLOCKED;
}

/* Goes on with operation_begin where the heap was not in use when the mark was set. */
static __attribute__((noinline)) bool begin_slowly(void)
{
    uintptr_t self = current_thread();
    for (;;) {
        uint32_t state = atomic_load(&heap_state);
        switch (way_in(state)) {
        case WAY_ORDINARY:
            return true;
        case WAY_FROZEN:
            change_mark(self, self | MARK_FROZEN);
            if (atomic_load(&heap_state) == state) /* [mark then look] */
                return false;
            change_mark(self | MARK_FROZEN, self);
            break;
        case WAY_BLOCKED:
            change_mark(self, 0);
            wait_for_state_other_than(state);
            set_mark(self);
            break;
        }
    }
}

bool operation_begin(void)
{
    set_mark(current_thread());
    return __builtin_expect(atomic_load(&heap_state) == IN_USE, 1) || begin_slowly();
}

void operation_end(void)
{
    change_mark(current_thread(), 0);
}

bool frozen_begin(void)
{
    if (!operation_begin())
        return true;
    operation_end();
    return false;
}

static void pause_while(enum heap_state state, long most_ns)
{
    const struct timespec most = {.tv_nsec = most_ns};
    SYSCALL_4(SYS_futex, &heap_state, FUTEX_WAIT_PRIVATE, state, &most);
}

void frozen_pause(void)
{
    pause_while(FROZEN, 50000);
}

void freezing_pause(void)
{
    if (atomic_load(&heap_state) == FREEZING && forking_thread != current_thread())
        pause_while(FREEZING, 1000000);
}

void frozen_end(void)
{
    change_mark(current_thread() | MARK_FROZEN, 0);
}

bool heap_is_frozen_by_this_thread(void)
{
    return atomic_load_explicit(&forking_thread, memory_order_relaxed) == current_thread() &&
           atomic_load_explicit(&heap_state, memory_order_relaxed) >= FROZEN;
}

/* Fork. */

bool operation_is_interrupted(void)
{
    return count_marks(current_thread()) + count_marks(current_thread() | MARK_FROZEN) > 0;
}

static void wait_for_marks(bool frozen)
{
    for (size_t i = 0; i < MARKS; i++)
        for (unsigned turn = 0;; turn++) {
            uintptr_t mark = atomic_load(&marks[i]);
            if (!is_of_other_thread(mark) || ((mark & MARK_FROZEN) != 0) != frozen)
                break;
            wait_for_mark(&marks[i], turn);
        }
}

void freeze_begin(void)
{
    uintptr_t none = 0;
    while (!atomic_compare_exchange_strong(&forking_thread, &none, current_thread())) {
        uint32_t state = atomic_load(&heap_state);
        if (state != IN_USE)
            wait_for_state_other_than(state);
        none = 0;
    }
    atomic_store(&heap_state, FREEZING);
    wait_for_marks(false);
}

void freeze_end(void)
{
    set_state_and_wake(FROZEN);
}

void thaw_begin(void)
{
    set_state_and_wake(THAWING);
    wait_for_marks(true);
}

void thaw_end(void)
{
    set_state_and_wake(IN_USE);
    atomic_store(&forking_thread, 0);
}

void forget_marks_of_others(void)
{
    for (size_t i = 0; i < MARKS; i++)
        if (is_of_other_thread(atomic_load(&marks[i])))
            atomic_store(&marks[i], 0);
}
