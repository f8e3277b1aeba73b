/* SPDX-License-Identifier: MIT
 *
 * test_pool_fork.c: the pages of sampled blocks in the child of a fork, which lacks the thread that
 * was looking at them.
 */
#include "tests/unit/unit.h"

/* Included, not linked: a slot is put into the state in which a stopped thread leaves it. */
#include "alloc/checked/pool.c"

static void free_in_child(void *block)
{
    pool_fork_child();
    alarm(60);
    pool_free(block, "free");
    size_t bytes;
    require(!pool_find(block, &bytes));
}

static void test_a_free_does_not_wait_for_a_thread_that_is_not_there(void **state)
{
    (void)state;
    pool_init(16);
    void *block = pool_alloc(16, 100, 1);
    assert_non_null(block);
    assert_true(pass(slot_of(block), LIVE, LOOKED_AT));
    assert_child_succeeds(free_in_child, block);
}

static void test_a_freed_block_stays_freed(void **state)
{
    (void)state;
    void *block = pool_alloc(16, 100, 1);
    size_t bytes;
    pool_free(block, "free");
    pool_fork_child();
    assert_false(pool_find(block, &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_free_does_not_wait_for_a_thread_that_is_not_there),
        cmocka_unit_test(test_a_freed_block_stays_freed),
    };
    return cmocka_run_group_tests_name("guarded pool in a child", tests, NULL, NULL);
}
