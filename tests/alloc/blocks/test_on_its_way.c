/* SPDX-License-Identifier: MIT
 *
 * test_on_its_way.c: a block that a thread of `blocks` is about to free is one that a collection
 * finds, wherever the collection stops the thread: [on its way] (alloc/blocks/heap.h). And what two
 * threads may do to one block meanwhile.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "alloc/blocks/blocks.h"
#include "tests/unit/allocator_unit.h"

static const uintptr_t mask = UINT64_C(0x5555555555555555);

/* The block of a thread that frees it, told in a form that no word of the thread is. */
struct freeing {
    uintptr_t hidden;
    pthread_t thread;
    _Atomic pid_t tid;
    const char *stack_end;
};

static struct freeing *_Atomic asked;
static _Atomic int answer; /* 0: none yet */
enum { OUT_OF_SIGHT = 1, IN_SIGHT };

/* In the thread that is asked about, as a stop's handler is. */
static __attribute__((no_sanitize_address)) void look(int signal_number, siginfo_t *info,
                                                      void *context)
{
    (void)signal_number;
    (void)info;
    const struct freeing *freeing = atomic_load(&asked);
    const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    bool seen = false;
    for (int i = 0; i < NGREG; i++)
        seen |= ((uintptr_t)registers[i] ^ mask) == freeing->hidden;
    for (const char *at = (const char *)registers[REG_RSP]; at < freeing->stack_end;
         at += sizeof(uintptr_t))
        seen |= (*(const uintptr_t *)(const void *)at ^ mask) == freeing->hidden;
    atomic_store(&answer, seen ? IN_SIGHT : OUT_OF_SIGHT);
}

static void *free_hidden(void *argument)
{
    struct freeing *freeing = argument;
    freeing->stack_end = __builtin_frame_address(0);
    atomic_store(&freeing->tid, gettid());
    blocks_free((void *)(freeing->hidden ^ mask));
    return NULL;
}

static void pause_a_moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* The caller holds the heap's lock, for which the thread waits. */
static void start_freeing(struct freeing *freeing, void *block)
{
    freeing->hidden = (uintptr_t)block ^ mask;
    assert_int_equal(pthread_create(&freeing->thread, NULL, free_hidden, freeing), 0);
    while (atomic_load(&freeing->tid) == 0 || !sleeps_in_futex(atomic_load(&freeing->tid)))
        pause_a_moment();
}

static void test_a_large_block_is_in_sight_while_its_free_waits(void **state)
{
    (void)state;
    const struct sigaction action = {.sa_sigaction = look, .sa_flags = SA_SIGINFO | SA_RESTART};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    static struct freeing freeing;
    void *block = blocks_alloc(1 << 20);
    blocks_lock();
    start_freeing(&freeing, block);
    atomic_store(&asked, &freeing);
    pthread_kill(freeing.thread, SIGUSR1);
    while (atomic_load(&answer) == 0)
        pause_a_moment();
    blocks_unlock();
    pthread_join(freeing.thread, NULL);
    assert_int_equal(atomic_load(&answer), IN_SIGHT);
    assert_true(blocks_is_valid());
}

static void free_large_in_two_threads(void *unused)
{
    (void)unused;
    static struct freeing freeing[2];
    void *block = blocks_alloc(1 << 20);
    blocks_lock();
    start_freeing(&freeing[0], block);
    start_freeing(&freeing[1], block);
    blocks_unlock();
    pthread_join(freeing[0].thread, NULL);
    pthread_join(freeing[1].thread, NULL);
}

static void test_a_large_block_freed_by_two_threads_at_once_is_found(void **state)
{
    (void)state;
    assert_aborts(free_large_in_two_threads, NULL, "): not a live block (freed twice");
}

static enum growth always_grow(size_t alignment, size_t bytes, unsigned tries, bool exhausted)
{
    (void)alignment;
    (void)bytes;
    (void)tries;
    return exhausted ? REFUSE : GROW;
}

static int start(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {.before_growth = always_grow};
    return blocks_init(25, &collector) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_large_block_is_in_sight_while_its_free_waits),
        cmocka_unit_test(test_a_large_block_freed_by_two_threads_at_once_is_found),
    };
    return cmocka_run_group_tests_name("in sight", tests, start, NULL);
}
