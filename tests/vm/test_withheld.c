/* SPDX-License-Identifier: MIT
 *
 * test_withheld.c: memory that a child lacks if it is made between withheld_begin and withheld_end.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/withheld.h"

enum { MANY = 400, THREADS = 4 };

static void test_a_granule_is_zero_and_known_as_ours(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++) {
        char *memory = withheld_map();
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % GRANULE_BYTES, 0);
        assert_true(is_zero(memory, GRANULE_BYTES));
        memset(memory, 1, GRANULE_BYTES); /* whoever is given it again finds it written */
        assert_true(withheld_has(memory) && withheld_has(memory + GRANULE_BYTES - 1));
        assert_true(granule_map_is_ours((uintptr_t)memory));
        assert_null(granule_map_get(memory));
    }
}

static void test_other_memory_is_not_withheld(void **state)
{
    (void)state;
    static char byte;
    char *pages = pages_map(GRANULE_BYTES, GRANULE_BYTES);
    assert_false(withheld_has(&byte) || withheld_has(pages) || withheld_has(NULL));
    pages_unmap(pages, GRANULE_BYTES);
}

static char *taken[THREADS][MANY];
static pthread_barrier_t all_begin;

static void *take_many(void *row)
{
    char **memory = row;
    pthread_barrier_wait(&all_begin);
    for (int i = 0; i < MANY; i++) {
        memory[i] = withheld_map();
        if (memory[i])
            memset(memory[i], 1, 1);
    }
    return NULL;
}

static int compare(const void *left, const void *right)
{
    const char *a = *(char *const *)left, *b = *(char *const *)right;
    return (a > b) - (a < b);
}

static void test_threads_are_given_different_granules(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    assert_int_equal(pthread_barrier_init(&all_begin, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, taken[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    char **all = &taken[0][0];
    qsort(all, (size_t)THREADS * MANY, sizeof *all, compare);
    assert_non_null(all[0]);
    for (int i = 1; i < THREADS * MANY; i++)
        assert_true(all[i] - all[i - 1] >= (ptrdiff_t)GRANULE_BYTES);
}

static char *granules[MANY];

static void require_all_lacking(void *unused)
{
    (void)unused;
    for (int i = 0; i < MANY; i++)
        require(!is_readable(granules[i]));
}

static void require_all_there(void *unused)
{
    (void)unused;
    for (int i = 0; i < MANY; i++)
        require(granules[i][0] == 'x' && granules[i][GRANULE_BYTES - 1] == 0);
}

static void test_only_a_child_made_between_the_two_lacks_it(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++) {
        granules[i] = withheld_map();
        granules[i][0] = 'x';
    }
    assert_child_succeeds(require_all_there, NULL);
    withheld_begin();
    assert_child_succeeds(require_all_lacking, NULL);
    withheld_end();
    assert_child_succeeds(require_all_there, NULL);
    require_all_there(NULL);
}

static void ask_beyond_the_limit(void *unused)
{
    (void)unused;
    char *memory = withheld_map();
    limit_address_space((size_t)2 << 20);
    for (int i = 0; memory && i < MANY; i++)
        memory = withheld_map();
    require(memory == NULL);
}

static void test_refused_memory_is_said(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(ask_beyond_the_limit, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_granule_is_zero_and_known_as_ours),
        cmocka_unit_test(test_other_memory_is_not_withheld),
        cmocka_unit_test(test_threads_are_given_different_granules),
        cmocka_unit_test(test_only_a_child_made_between_the_two_lacks_it),
        cmocka_unit_test(test_refused_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
