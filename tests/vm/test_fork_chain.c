/* SPDX-License-Identifier: MIT
 *
 * test_fork_chain.c: the locks that fork takes. Compiled as a debug build, whatever the rest is, so
 * that the check of ranks sees a wrong order.
 */
#include "tests/unit/unit.h"

#include <sys/wait.h>

#include "vm/fork_chain.h"
#include "vm/freeze.h"

#ifdef NDEBUG
#error "the order is only checked in a debug build of lock.c"
#endif

static struct lock arena = LOCK_INITIALIZER(RANK_ARENA);
static struct lock second_arena = LOCK_INITIALIZER(RANK_ARENA);
static struct lock account = LOCK_INITIALIZER(RANK_ACCOUNT);
static struct lock pages = LOCK_INITIALIZER(RANK_PAGES);
static struct lock *const all[] = {&arena, &second_arena, &account, &pages};
enum { LOCKS = sizeof all / sizeof *all };

static unsigned held(void)
{
    unsigned count = 0;
    for (int i = 0; i < LOCKS; i++)
        count += all[i]->state == (current_thread() | LOCK_FROZEN);
    return count;
}

static int add_all(void **state)
{
    (void)state;
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < LOCKS; i++)
            fork_chain_add(all[i]);
    return 0;
}

static void test_the_parent_takes_each_lock_once_and_gives_it_back(void **state)
{
    (void)state;
    fork_chain_prepare();
    assert_int_equal(held(), LOCKS);
    assert_int_equal(forking_thread, current_thread());
    for (int i = 0; i < LOCKS; i++)
        assert_int_equal(all[i]->nested, 0);
    fork_chain_parent();
    assert_int_equal(forking_thread, 0);
    for (int i = 0; i < LOCKS; i++)
        assert_int_equal(all[i]->state, 0);
}

static void test_a_handler_between_may_take_what_is_held(void **state)
{
    (void)state;
    fork_chain_prepare();
    lock_acquire(&arena);
    lock_release(&arena);
    assert_int_equal(arena.state, current_thread() | LOCK_FROZEN);
    fork_chain_parent();
    assert_int_equal(arena.state, 0);
}

static unsigned held_in_repair;

static void note_held(void)
{
    held_in_repair = held();
}

static void test_the_child_repairs_before_it_resets(void **state)
{
    (void)state;
    int status;
    fork_chain_prepare();
    pid_t child = fork();
    if (child == 0) {
        fork_chain_child(note_held);
        bool all_free = forking_thread == 0;
        for (int i = 0; i < LOCKS; i++)
            all_free = all_free && all[i]->state == 0;
        _exit(held_in_repair == LOCKS && all_free ? 0 : 1);
    }
    fork_chain_parent();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_what_a_handler_has_interrupted_is_told(void **state)
{
    (void)state;
    assert_false(fork_chain_is_interrupted());
    for (int i = 0; i < LOCKS; i++) {
        lock_acquire(all[i]);
        assert_true(fork_chain_is_interrupted());
        lock_release(all[i]);
    }
    assert_true(operation_begin());
    assert_true(fork_chain_is_interrupted());
    operation_end();
    assert_false(fork_chain_is_interrupted());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_parent_takes_each_lock_once_and_gives_it_back),
        cmocka_unit_test(test_a_handler_between_may_take_what_is_held),
        cmocka_unit_test(test_the_child_repairs_before_it_resets),
        cmocka_unit_test(test_what_a_handler_has_interrupted_is_told),
    };
    return cmocka_run_group_tests(tests, add_all, NULL);
}
