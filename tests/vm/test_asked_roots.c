/* SPDX-License-Identifier: MIT
 *
 * test_asked_roots.c: ranges and pins are counted, found again after the tables have grown, and
 * changed by several threads at once.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>

#include "vm/asked_roots.h"
#include "vm/fork_chain.h"

enum { MANY = 20000, THREADS = 4, STEP = 16 };

static const uintptr_t SOMEWHERE = UINT64_C(0x7f1234560000);

typedef int change_root(uintptr_t address);

static size_t words, found, ranges, range_bytes;

static void count_words(const void *start, const void *end)
{
    for (const uintptr_t *word = start; word < (const uintptr_t *)end; word++) {
        words++;
        found += *word >= SOMEWHERE; /* a pin's count is less */
    }
}

static void count_range(uintptr_t start, uintptr_t end)
{
    ranges++;
    range_bytes += end - start;
}

static bool look_whether_all_is_known(void)
{
    words = found = ranges = range_bytes = 0;
    asked_roots_lock();
    bool is_known = asked_roots_each(count_words, count_range);
    asked_roots_unlock();
    return is_known;
}

static void look(void)
{
    require(look_whether_all_is_known());
}

static void test_nothing_is_there_at_first(void **state)
{
    (void)state;
    look();
    assert_int_equal(words + ranges, 0);
    assert_int_equal(asked_roots_unpin(SOMEWHERE), ENOENT);
    assert_int_equal(asked_roots_remove(SOMEWHERE, 8), ENOENT);
}

static void test_many_pins_are_found_again(void **state)
{
    (void)state;
    for (uintptr_t i = 0; i < MANY; i++)
        assert_int_equal(asked_roots_pin(SOMEWHERE + i * STEP), 0);
    look();
    assert_int_equal(found, MANY);
    for (uintptr_t i = 0; i < MANY; i += 3)
        assert_int_equal(asked_roots_unpin(SOMEWHERE + i * STEP), 0);
    for (uintptr_t i = 0; i < MANY; i++)
        assert_int_equal(asked_roots_unpin(SOMEWHERE + i * STEP), i % 3 == 0 ? ENOENT : 0);
    look();
    assert_int_equal(found, 0);
}

static void test_pins_are_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(asked_roots_pin(SOMEWHERE), 0);
    for (int i = 0; i < 3; i++) {
        look();
        assert_int_equal(found, 1);
        assert_int_equal(asked_roots_unpin(SOMEWHERE), 0);
    }
    assert_int_equal(asked_roots_unpin(SOMEWHERE), ENOENT);
}

static void test_many_ranges_are_found_again(void **state)
{
    (void)state;
    for (uintptr_t i = 0; i < MANY / 2; i++)
        assert_int_equal(asked_roots_add(SOMEWHERE + i * STEP, i + 1), 0);
    look();
    assert_int_equal(ranges, MANY / 2);
    assert_int_equal(range_bytes, (size_t)(MANY / 2) * (MANY / 2 + 1) / 2);
    assert_int_equal(asked_roots_remove(SOMEWHERE, 2), ENOENT);
    for (uintptr_t i = 0; i < MANY / 2; i++)
        assert_int_equal(asked_roots_remove(SOMEWHERE + i * STEP, i + 1), 0);
    look();
    assert_int_equal(ranges, 0);
}

static void *change(void *argument)
{
    uintptr_t first = SOMEWHERE + (uintptr_t)argument * MANY * STEP;
    for (uintptr_t i = 0; i < MANY; i++)
        require(asked_roots_pin(first + i * STEP) == 0);
    for (uintptr_t i = 0; i < MANY; i += 2)
        require(asked_roots_unpin(first + i * STEP) == 0);
    return NULL;
}

static void test_threads_change_them_at_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, change, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    look();
    assert_int_equal(found, THREADS * MANY / 2);
    for (uintptr_t i = 1; i < (uintptr_t)THREADS * MANY; i += 2)
        assert_int_equal(asked_roots_unpin(SOMEWHERE + i * STEP), 0);
    look();
    assert_int_equal(found, 0);
}

static void refuse(void *unused)
{
    enum { MORE = 1 << 22 };
    (void)unused;
    limit_address_space(0);
    int error = 0;
    for (uintptr_t i = 0; i < MORE && !error; i++)
        error = asked_roots_pin(SOMEWHERE + i * STEP);
    require(error == ENOMEM);
    error = 0;
    for (uintptr_t i = 0; i < MORE && !error; i++)
        error = asked_roots_add(SOMEWHERE + i * STEP, 8);
    require(error == ENOMEM);
    require(asked_roots_unpin(SOMEWHERE) == 0);
    require(asked_roots_remove(SOMEWHERE, 8) == 0);
}

static void test_without_memory_they_say_so(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(refuse, NULL);
}

/* By the thread that forks, whose handlers may call what they like. */
static void test_changes_in_a_fork_handler_count_after_it(void **state)
{
    (void)state;
    fork_chain_prepare();
    assert_int_equal(asked_roots_pin(SOMEWHERE), 0);
    fork_chain_parent();
    assert_int_equal(asked_roots_unpin(SOMEWHERE), 0);
    assert_int_equal(asked_roots_unpin(SOMEWHERE), ENOENT);
}

/* The changes that are noted are made, and of each other one the caller is told. */
static void unpin_without_memory(void *unused)
{
    (void)unused;
    size_t noted = 0;
    for (uintptr_t i = 0; i < MANY; i++)
        require(asked_roots_pin(SOMEWHERE + i * STEP) == 0);
    fork_chain_prepare();
    limit_address_space(0);
    int error = 0;
    for (uintptr_t i = 0; i < MANY && !error; i++) {
        error = asked_roots_unpin(SOMEWHERE + i * STEP);
        noted += !error;
    }
    fork_chain_parent();
    require(error == ENOMEM && noted > 0);
    look();
    require(found == MANY - noted);
}

static void test_without_memory_to_note_a_change_during_a_fork_they_say_so(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(unpin_without_memory, NULL);
}

/* A change is noted, and when it is to be made there is no room for it. */
static void fill_and_change(change_root *change_one)
{
    uintptr_t done = 0;
    limit_address_space(0);
    while (change_one(SOMEWHERE + done * STEP) == 0)
        done++;
    require(look_whether_all_is_known());
    fork_chain_prepare();
    require(change_one(SOMEWHERE + done * STEP) == 0);
    fork_chain_parent();
    require(!look_whether_all_is_known());
    require(found + ranges == done);
}

static int add_word(uintptr_t address)
{
    return asked_roots_add(address, 8);
}

static void pin_without_room(void *unused)
{
    (void)unused;
    fill_and_change(asked_roots_pin);
}

static void add_without_room(void *unused)
{
    (void)unused;
    fill_and_change(add_word);
}

static void test_without_memory_for_a_noted_change_not_all_is_known(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(pin_without_room, NULL);
    assert_child_succeeds(add_without_room, NULL);
}

int main(void)
{
    alarm(600);
    asked_roots_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_there_at_first),
        cmocka_unit_test(test_many_pins_are_found_again),
        cmocka_unit_test(test_pins_are_counted),
        cmocka_unit_test(test_many_ranges_are_found_again),
        cmocka_unit_test(test_threads_change_them_at_once),
        cmocka_unit_test(test_without_memory_they_say_so),
        cmocka_unit_test(test_changes_in_a_fork_handler_count_after_it),
        cmocka_unit_test(test_without_memory_to_note_a_change_during_a_fork_they_say_so),
        cmocka_unit_test(test_without_memory_for_a_noted_change_not_all_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
