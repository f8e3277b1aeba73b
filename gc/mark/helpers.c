/* SPDX-License-Identifier: MIT
 *
 * helpers.c: parallel marking.
 *
 * Helpers are threads that are made for one collection, by clone, in the stopped world. A marker
 * with much on its stack puts the older half of it into the shared pool when another is idle.
 * Nobody waits for a helper that the processor has no time for: it joins when it runs, and ends at
 * once if the marking is over.
 *
 * Invariants
 * [pool under lock]   The pool and its size belong to whoever holds pool_lock. pool_filled is a
 *                     hint that is read without it.
 * [idle is empty]     A marker counts itself idle only after it found its stack, its ranges and the
 *                     pool empty. Only a marker that is not idle fills the pool. So when idle ==
 *                     working there is nothing left to mark, and the first marker goes on. A
 *                     helper that has read the two numbers before may still join. It finds nothing
 *                     and ends, perhaps when the world runs again. The next collection waits for
 *                     its end before it begins (mark_prepare). A fork does not: the child has no
 *                     helpers, and none of what they held (mark_forget_helpers).
 * [no helper at rest] A helper has the process's credentials and namespaces as they were when it
 *                     was made, and the kernel lets only a process of one thread change some. So
 *                     before they change, and before a sandbox, mark_wait_for_helpers is called
 *                     (collect_before_exec, collect_never_again).
 *
 * Source: Jones, Hosking, Moss, "The Garbage Collection Handbook", 2012, chapter 14 (sharing work,
 * and its termination).
 */
#include "gc/mark/helpers.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "gc/mark/drain.h"
#include "gc/mark/mark.h"
#include "gc/world/recorder.h"
#include "vm/own_memory.h"
#include "vm/private_memory.h"
#include "vm/syscall.h"

enum {
    TAKE_MOST = 1024, /* words taken from the pool at once */
    HELPER_STACK_BYTES = 64 << 10,
};

static void lock_pool(void)
{
    while (atomic_exchange_explicit(&mark.pool_lock, 1, memory_order_acquire))
        __builtin_ia32_pause();
}

static void unlock_pool(void)
{
    atomic_store_explicit(&mark.pool_lock, 0, memory_order_release);
}

/* Shares the older half of the stack, which leads to more than the newer: in a tree that is marked
 * depth first a stack of twenty words is a million blocks. */
void helpers_share(struct marker *marker)
{
    size_t depth = stack_depth(marker), count = depth / 2 < SHARE_MOST ? depth / 2 : SHARE_MOST;
    if (atomic_load_explicit(&mark.pool_filled, memory_order_relaxed))
        return; /* what was shared last is still there */
    lock_pool();
    if (mark.pool_words + count <= POOL_WORDS) {
        memcpy(mark.pool + mark.pool_words, marker->stack, count * sizeof *mark.pool);
        mark.pool_words += count;
        depth -= count;
        memcpy(marker->stack, marker->stack + depth, count * sizeof *marker->stack);
        marker->top = marker->stack + depth;
        atomic_store_explicit(&mark.pool_filled, 1, memory_order_release);
    }
    unlock_pool();
    if (atomic_load_explicit(&mark.asleep, memory_order_relaxed) > 0)
        SYSCALL_3(SYS_futex, &mark.pool_filled, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

static bool take_work(struct marker *marker)
{
    lock_pool();
    size_t count = mark.pool_words < TAKE_MOST ? mark.pool_words : TAKE_MOST;
    mark.pool_words -= count;
    memcpy(marker->top, mark.pool + mark.pool_words, count * sizeof *marker->stack);
    marker->top += count;
    if (mark.pool_words == 0)
        atomic_store_explicit(&mark.pool_filled, 0, memory_order_relaxed);
    unlock_pool();
    return count > 0;
}

/* One turn of waiting for the pool: at first without giving the processor up. */
static void wait_for_work(unsigned turn)
{
    enum { SPINS = 1000 };
    static const struct timespec nap = {.tv_nsec = 50000};
    if (turn < SPINS) {
        __builtin_ia32_pause();
        return;
    }
    atomic_fetch_add(&mark.asleep, 1);
    SYSCALL_4(SYS_futex, &mark.pool_filled, FUTEX_WAIT_PRIVATE, 0, &nap);
    atomic_fetch_sub(&mark.asleep, 1);
}

/* Until all markers are idle: [idle is empty]. */
static void drain_in_parallel(struct marker *marker)
{
    for (;;) {
        drain_shared(marker);
        if (take_work(marker))
            continue;
        atomic_fetch_add(&mark.idle, 1);
        for (unsigned turn = 0; !atomic_load(&mark.pool_filled); turn++) {
            if (atomic_load(&mark.idle) == atomic_load(&mark.working))
                return;
            wait_for_work(turn);
        }
        atomic_fetch_sub(&mark.idle, 1);
    }
}

/* False: all are idle, so the marking is over. */
static bool join_marking(void)
{
    uint32_t working = atomic_load(&mark.working);
    do
        if (working == 0 || atomic_load(&mark.idle) >= working)
            return false;
    while (!atomic_compare_exchange_weak(&mark.working, &working, working + 1));
    return true;
}

static void helper_main(struct marker *marker)
{
    doorbell_enter_mark();
    if (join_marking())
        drain_in_parallel(marker);
    for (;;)
        SYSCALL_1(SYS_exit, 0);
}

/* Starts a thread with nothing but a stack; the kernel clears `running` when it has ended. It has
 * its creator's signal mask, which blocks all. */
static bool start_helper(struct marker *marker)
{
    if (!marker->thread_stack)
        marker->thread_stack = private_memory_map(HELPER_STACK_BYTES);
    if (!marker->thread_stack)
        return false;
    uintptr_t *top = (uintptr_t *)(marker->thread_stack + HELPER_STACK_BYTES) - 2;
    top[0] = (uintptr_t)marker;
    top[1] = (uintptr_t)helper_main;
    atomic_store(&marker->running, 1);
    long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                 CLONE_CHILD_CLEARTID;
    register void *child_thread_id __asm__("r10") = (void *)&marker->running;
    long result;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "pop %%rdi\n\t"
                     "pop %%rax\n\t"
                     "call *%%rax\n\t"
                     "1:"
                     : "=a"(result)
                     : "a"((long)SYS_clone), "D"(flags), "S"(top), "d"(0L), "r"(child_thread_id)
                     : "rcx", "r11", "memory");
    atomic_store(&marker->thread, syscall_failed(result) ? 0 : (int32_t)result);
    if (syscall_failed(result))
        atomic_store(&marker->running, 0);
    return !syscall_failed(result);
}

/* The child of a handler's fork, in the middle of an operation, is told nothing and has no helpers:
 * there `running` stays. The kernel's wake is a shared one, so the wait is. */
void mark_prepare(void)
{
    for (unsigned i = 0; i < mark.most_markers; i++) {
        uint32_t running;
        while ((running = atomic_load(&mark.markers[i].running)) != 0 && memory_is_own())
            SYSCALL_4(SYS_futex, &mark.markers[i].running, FUTEX_WAIT, running, NULL);
    }
}

/* [no helper at rest]. The word `running` is no help: the kernel clears it before it takes the
 * thread off the process's list and gives its credentials back. A tracer may keep a helper for
 * ever, and another thread may have the helper's number by now. So the wait ends after NAPS naps:
 * some 2 s, and more where processors are busy. */
void mark_wait_for_helpers(void)
{
    enum { SHORT_NAPS = 100, NAPS = 2000, SHORT_NS = 50000, LONG_NS = 1000000 };
    long process = SYSCALL_0(SYS_getpid);
    for (unsigned i = 0, naps = 0; i < mark.most_markers; i++) {
        int32_t thread = atomic_load(&mark.markers[i].thread);
        while (thread && naps < NAPS && SYSCALL_3(SYS_tgkill, process, thread, 0) != -ESRCH) {
            struct timespec nap = {.tv_nsec = naps++ < SHORT_NAPS ? SHORT_NS : LONG_NS};
            SYSCALL_2(SYS_nanosleep, &nap, NULL);
        }
        atomic_store(&mark.markers[i].thread, 0);
    }
}

void mark_forget_helpers(void)
{
    for (unsigned i = 0; i < mark.most_markers; i++) {
        atomic_store(&mark.markers[i].running, 0);
        atomic_store(&mark.markers[i].thread, 0);
    }
    atomic_store(&mark.pool_lock, 0);
    atomic_store(&mark.asleep, 0);
}

unsigned helpers_drain(unsigned helpers)
{
    if (helpers > mark.most_markers - 1)
        helpers = mark.most_markers - 1;
    atomic_store(&mark.idle, 0);
    atomic_store(&mark.working, 1);
    for (unsigned i = 1; i <= helpers && start_helper(&mark.markers[i]); i++)
        ;
    drain_in_parallel(&mark.markers[0]);
    return atomic_load(&mark.working);
}
