/* SPDX-License-Identifier: MIT
 *
 * test_deferred.c: calls that wait for the end of a fork: each is made once, in order, with its
 * words, however many there are.
 */
#include "vm/deferred.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "tests/unit/single_step.h"
#include "tests/unit/unit.h"

enum { TRAP_FLAG = 0x100 };
enum { MANY = 5000, THREADS = 4, A_BURST = 40, OF_A_THREAD = 100 * A_BURST };

static size_t made;
static uintptr_t seen[MANY][DEFERRED_WORDS];
static const uintptr_t *last_words;

static void note_words(const uintptr_t words[DEFERRED_WORDS])
{
    last_words = words;
    for (size_t i = 0; made < MANY && i < DEFERRED_WORDS; i++)
        seen[made][i] = words[i];
    made++;
}

/* Returns how many were noted. */
static size_t defer_many(size_t count)
{
    size_t noted = 0;
    for (uintptr_t i = 0; i < count; i++)
        noted += defer(note_words,
                       (const uintptr_t[DEFERRED_WORDS]){i, i + 1, i + 2, i + 3, i + 4, i + 5});
    return noted;
}

static void test_calls_are_made_once_in_order_with_their_words(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 3, 71, 500, MANY, 2}; /* of one extent, and of many */
    for (size_t round = 0; round < sizeof counts / sizeof *counts; round++) {
        made = 0;
        defer_many(counts[round]);
        assert_int_equal(made, 0);
        deferred_run();
        assert_int_equal(made, counts[round]);
        for (size_t i = 0; i < made; i++)
            for (size_t word = 0; word < DEFERRED_WORDS; word++)
                assert_int_equal(seen[i][word], i + word);
        deferred_run();
        assert_int_equal(made, counts[round]);
    }
}

static void test_one_word_is_the_first(void **state)
{
    (void)state;
    made = 0;
    defer_one(note_words, &made);
    deferred_run();
    assert_int_equal(seen[0][0], &made);
    assert_int_equal(seen[0][1], 0);
}

/* They are no roots of a collection any more. */
static void test_the_words_of_a_call_are_cleared_behind_it(void **state)
{
    (void)state;
    made = 0;
    defer_one(note_words, &made);
    deferred_run();
    assert_int_equal(seen[0][0], &made);
    assert_true(is_zero(last_words, DEFERRED_WORDS * sizeof *last_words));
}

/* Threads that note calls at once. */

static size_t next_of[THREADS], out_of_turn;
static pthread_barrier_t barrier;

static void note_turn(const uintptr_t words[DEFERRED_WORDS])
{
    out_of_turn += words[1] != next_of[words[0]]++;
    made++;
}

static void *defer_in_turn(void *thread)
{
    for (uintptr_t i = 0; i < OF_A_THREAD; i++) {
        if (i % A_BURST == 0)
            pthread_barrier_wait(&barrier);
        defer(note_turn, (const uintptr_t[DEFERRED_WORDS]){(uintptr_t)thread, i});
    }
    return NULL;
}

static void test_no_call_of_threads_is_lost_and_each_threads_are_in_order(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    made = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, defer_in_turn, (void *)i), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    deferred_run();
    assert_int_equal(made, THREADS * OF_A_THREAD);
    assert_int_equal(out_of_turn, 0);
}

/* A fork that finds a thread in the middle of `defer`: function-last. */

static size_t instruction, fork_at;
static int status_of_child;

static void fork_once(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    if (++instruction != fork_at)
        return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    pid_t child = fork();
    if (child == 0) {
        deferred_run();
        _exit(made > 1 || (made == 1 && seen[0][0] != (uintptr_t)&made));
    }
    waitpid(child, &status_of_child, 0);
}

static void test_a_call_that_is_not_whole_is_not_made_in_the_child_of_a_fork(void **state)
{
    (void)state;
    const struct sigaction action = {.sa_sigaction = fork_once, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
    do {
        made = instruction = 0;
        fork_at++;
        step(true);
        defer_one(note_words, &made);
        step(false);
        assert_int_equal(status_of_child, 0);
        deferred_run();
        assert_int_equal(made, 1);
    } while (instruction == fork_at);
    assert_in_range(fork_at, 20, SIZE_MAX); /* all were gone through */
}

/* Another call is noted in the middle of one, as another thread does. */

static size_t defer_at;

static void defer_once(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    if (++instruction != defer_at)
        return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    defer_one(note_words, &defer_at);
}

static void test_two_calls_that_are_noted_at_once_are_both_made(void **state)
{
    (void)state;
    const struct sigaction action = {.sa_sigaction = defer_once, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
    for (size_t before = 0; before <= 72; before += 36) { /* an extent has 72 */
        defer_at = 0;
        do {
            made = instruction = 0;
            defer_at++;
            defer_many(before);
            step(true);
            defer_one(note_words, &made);
            step(false);
            deferred_run();
            if (made != before + (instruction == defer_at ? 2 : 1))
                fail_msg("%zu calls, after %zu and one more at instruction %zu", made, before,
                         defer_at);
        } while (instruction == defer_at);
    }
}

/* Without memory for an extent: what has a place is kept. */
static void defer_without_memory(void *unused)
{
    (void)unused;
    made = 0;
    limit_address_space(0);
    size_t noted = defer_many(MANY);
    deferred_run();
    require(made > 0 && made < MANY && made == noted);
    for (size_t i = 0; i < made; i++)
        require(seen[i][0] == i);
    size_t kept = made;
    made = 0;
    require(defer_many(kept) == kept);
    deferred_run();
    require(made == kept); /* and the places serve again */
}

static void test_without_memory_the_first_calls_are_made(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(defer_without_memory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_are_made_once_in_order_with_their_words),
        cmocka_unit_test(test_one_word_is_the_first),
        cmocka_unit_test(test_the_words_of_a_call_are_cleared_behind_it),
        cmocka_unit_test(test_no_call_of_threads_is_lost_and_each_threads_are_in_order),
        cmocka_unit_test(test_a_call_that_is_not_whole_is_not_made_in_the_child_of_a_fork),
        cmocka_unit_test(test_two_calls_that_are_noted_at_once_are_both_made),
        cmocka_unit_test(test_without_memory_the_first_calls_are_made),
    };
    return cmocka_run_group_tests_name("deferred calls", tests, NULL, NULL);
}
