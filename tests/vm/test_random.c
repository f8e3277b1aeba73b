/* SPDX-License-Identifier: MIT
 *
 * test_random.c: the sequences are those of their sources; seeds differ from call to call and from
 * process to process.
 */
#include "vm/random.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* Reference values of the sequence that begins at 1234567, as splitmix64.c of Sebastiano Vigna
 * gives them. */
static void test_the_sequence_is_splitmix64(void **state)
{
    (void)state;
    static const uint64_t words[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                     UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                     UINT64_C(16408922859458223821)};
    uint64_t sequence = 1234567;
    _Atomic uint64_t shared = 1234567;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_int_equal(random_draw(&sequence), words[i]);
        assert_int_equal(random_draw_shared(&shared), words[i]);
    }
}

enum { THREADS = 4, DRAWS = 20000 };
static _Atomic uint64_t shared_by_threads;
static uint64_t drawn[THREADS * DRAWS];

static void *draw_many(void *first)
{
    for (uint64_t *word = first; word < (uint64_t *)first + DRAWS; word++)
        *word = random_draw_shared(&shared_by_threads);
    return NULL;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void test_threads_draw_different_words_of_one_sequence(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, draw_many, drawn + i * DRAWS), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    qsort(drawn, THREADS * DRAWS, sizeof *drawn, compare);
    for (size_t i = 1; i < THREADS * DRAWS; i++)
        assert_true(drawn[i - 1] < drawn[i]);
}

/* Every place of a table is drawn as often as every other: each count is within six standard
 * deviations of the mean. */
static void test_steps_and_reduced_words_are_uniform(void **state)
{
    (void)state;
    enum { PLACES = 32, EACH = 10000 };
    uint64_t sequence = 1;
    uint32_t steps[PLACES] = {0}, reduced[PLACES] = {0};
    for (int i = 0; i < PLACES * EACH; i++) {
        steps[random_step(&sequence) % PLACES]++;
        reduced[random_reduce(random_draw(&sequence), PLACES)]++;
    }
    for (int place = 0; place < PLACES; place++) {
        assert_in_range(steps[place], EACH - 600, EACH + 600);
        assert_in_range(reduced[place], EACH - 600, EACH + 600);
    }
}

static void test_a_word_is_brought_below_the_limit(void **state)
{
    (void)state;
    assert_int_equal(random_reduce(0, 7), 0);
    assert_int_equal(random_reduce(UINT64_MAX, 7), 6);
    assert_int_equal(random_reduce(UINT64_MAX, 1), 0);
    assert_int_equal(random_reduce(UINT64_MAX, UINT64_C(1) << 32), UINT32_MAX);
}

static uint64_t seed_of_child(void)
{
    int ends[2];
    uint64_t seed = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        seed = random_seed();
        _exit(write(ends[1], &seed, sizeof seed) == sizeof seed ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &seed, sizeof seed), sizeof seed);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    return seed;
}

static void test_every_seed_is_another(void **state)
{
    (void)state;
    enum { SEEDS = 1000, CHILDREN = 4 };
    static uint64_t seeds[SEEDS + CHILDREN];
    for (size_t i = 0; i < SEEDS; i++)
        seeds[i] = random_seed();
    for (size_t i = SEEDS; i < SEEDS + CHILDREN; i++)
        seeds[i] = seed_of_child();
    qsort(seeds, SEEDS + CHILDREN, sizeof *seeds, compare);
    for (size_t i = 1; i < SEEDS + CHILDREN; i++)
        assert_true(seeds[i - 1] < seeds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_sequence_is_splitmix64),
        cmocka_unit_test(test_threads_draw_different_words_of_one_sequence),
        cmocka_unit_test(test_steps_and_reduced_words_are_uniform),
        cmocka_unit_test(test_a_word_is_brought_below_the_limit),
        cmocka_unit_test(test_every_seed_is_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
