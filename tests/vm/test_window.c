/* SPDX-License-Identifier: MIT
 *
 * test_window.c: the window of this process, which there is once; what needs another window is
 * tried in a child.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sys/mman.h>

#include "vm/pages.h"
#include "vm/window.h"

static char *used_end(void)
{
    return (char *)window.base + (window.used_units << UNIT_SHIFT);
}

/* The first of the tests that need a window: those before it make others, in children. */
static void test_base_is_aligned_and_the_shadow_lies_below(void **state)
{
    (void)state;
    window_init(4);
    assert_int_equal(window.base % ((uintptr_t)2 << 20), 0);
    assert_int_equal(window.base - (uintptr_t)window.shadow, WINDOW_BYTES / 16);
    if (!UNDER_SANITIZER)
        assert_in_range(window.base, (uintptr_t)2 << 40, ((uintptr_t)4 << 40) - WINDOW_BYTES / 2);
}

static void test_what_is_taken_adjoins_and_is_zero(void **state)
{
    (void)state;
    char *first = window_take(WINDOW_STEP), *second = window_take(3 * WINDOW_STEP);
    assert_non_null(first);
    assert_ptr_equal(second, first + WINDOW_STEP);
    assert_ptr_equal(used_end(), second + 3 * WINDOW_STEP);
    assert_true(is_zero(first, 4 * WINDOW_STEP));
    first[0] = second[3 * WINDOW_STEP - 1] = 1;
}

static void test_every_unit_has_a_shadow_byte_of_its_own(void **state)
{
    (void)state;
    char *start = window_take(WINDOW_STEP);
    uint8_t *before = window_shadow(window_unit(start), 4);
    for (size_t i = 0; i < WINDOW_STEP / 16; i++) {
        uint8_t *shadow = window_shadow(window_unit(start + 16 * i), 4);
        assert_ptr_equal(shadow, before + i);
        assert_int_equal(*shadow, 0);
        *shadow = 1;
    }
}

static void test_only_starts_of_units_in_the_used_part_are_held(void **state)
{
    (void)state;
    char *start = window_take(WINDOW_STEP);
    assert_true(window_holds(window_unit(start)));
    assert_true(window_holds(window_unit(start + WINDOW_STEP - 16)));
    assert_true(window_holds(window_unit((char *)window.base)));
    for (size_t offset = 1; offset < 16; offset++)
        assert_false(window_holds(window_unit(start + offset)));
    assert_false(window_holds(window_unit(start + WINDOW_STEP)));
    assert_false(window_holds(window_unit((char *)window.base - 16)));
    assert_false(window_holds(window_unit(NULL)));
    assert_false(window_holds(window_unit((void *)16)));
    assert_false(window_holds(window_unit(&start)));
    assert_false(window_holds(window_unit((void *)UINTPTR_MAX)));
}

static void test_what_lies_in_the_way_is_passed_over(void **state)
{
    (void)state;
    char *end = used_end();
    assert_true(pages_map_at(end + WINDOW_STEP, PAGE_BYTES));
    char *adjoining = window_take(WINDOW_STEP);
    assert_ptr_equal(adjoining, end);
    char *beyond = window_take(WINDOW_STEP);
    assert_non_null(beyond);
    assert_true(beyond > end + WINDOW_STEP);
    assert_true(is_zero(beyond, WINDOW_STEP));
    /* What was passed over counts as used: its shadow says that nothing there is live. */
    size_t obstacle = window_unit(end + WINDOW_STEP);
    assert_true(window_holds(obstacle));
    assert_int_equal(*window_shadow(obstacle, 4), 0);
    assert_int_equal(*window_shadow(window_unit(beyond) - 1, 4), 0);
    *window_shadow(window_unit(beyond), 4) = 1;
    assert_true(pages_unmap(end + WINDOW_STEP, PAGE_BYTES));
}

static void test_more_than_the_window_is_refused(void **state)
{
    (void)state;
    char *end = used_end();
    assert_null(window_take(WINDOW_BYTES));
    assert_null(window_take(WINDOW_BYTES + WINDOW_STEP));
    assert_ptr_equal(used_end(), end);
    assert_ptr_equal(window_take(WINDOW_STEP), end);
}

enum { THREADS = 4, TAKES = 50 };
static char *taken[THREADS][TAKES];

static void *take_many(void *mine)
{
    char **places = mine;
    for (int i = 0; i < TAKES; i++) {
        places[i] = window_take(WINDOW_STEP);
        if (places[i])
            places[i][0] = places[i][WINDOW_STEP - 1] = 1;
    }
    return NULL;
}

static void test_threads_are_given_different_memory(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    size_t used = window.used_units;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, taken[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int a = 0; a < THREADS * TAKES; a++) {
        char *one = taken[a / TAKES][a % TAKES];
        assert_non_null(one);
        for (int b = 0; b < a; b++)
            assert_ptr_not_equal(one, taken[b / TAKES][b % TAKES]);
    }
    assert_int_equal((window.used_units - used) << UNIT_SHIFT, THREADS * TAKES * WINDOW_STEP);
}

static void use_wider_shadow(void *argument)
{
    (void)argument;
    window_init(5);
    char *start = window_take(2 * WINDOW_STEP);
    require(start != NULL);
    uint8_t *shadow = window_shadow(window_unit(start), 5);
    require(window_shadow(window_unit(start + 16), 5) == shadow);
    require(window_shadow(window_unit(start + 32), 5) == shadow + 1);
    require(is_zero(shadow, 2 * WINDOW_STEP / 32));
}

/* A step's shadow is then less than a page. */
static void use_a_bit_for_every_unit(void *argument)
{
    (void)argument;
    window_init(7);
    for (size_t i = 0; i < 9; i++) {
        char *start = window_take(WINDOW_STEP);
        require(start != NULL);
        uint8_t *shadow = window.shadow + i * WINDOW_STEP / 128;
        require(is_zero(shadow, WINDOW_STEP / 128));
        shadow[WINDOW_STEP / 128 - 1] = 1;
    }
}

static void use_no_shadow(void *argument)
{
    (void)argument;
    window_init(0);
    require(window_take(WINDOW_STEP) != NULL);
    require(!is_readable(window.shadow));
}

static void test_shadow_of_32_bytes_of_bits_and_none(void **state)
{
    (void)state;
    assert_child_succeeds(use_wider_shadow, NULL);
    assert_child_succeeds(use_a_bit_for_every_unit, NULL);
    assert_child_succeeds(use_no_shadow, NULL);
}

static void use_an_occupied_window(void *argument)
{
    (void)argument;
    window_init(0);
    require(!window_is_occupied());
    require(pages_map_at((void *)window.base, PAGE_BYTES));
    require(window_is_occupied());
    require(window_take(WINDOW_STEP) != NULL);
    require(!window_is_occupied());
}

/* As ZGC does for a heap of 18 GiB. */
static void pass_over_a_large_reservation(void *argument)
{
    (void)argument;
    const size_t reserved = (size_t)288 << 30;
    window_init(0);
    require(window_take(WINDOW_STEP) != NULL);
    char *end = used_end();
    require(mmap(end + WINDOW_STEP, reserved, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
                 0) == end + WINDOW_STEP);
    char *beyond = window_take(2 * WINDOW_STEP);
    require(beyond >= end + WINDOW_STEP + reserved && is_zero(beyond, 2 * WINDOW_STEP));
    require(window_take(WINDOW_STEP) == beyond + 2 * WINDOW_STEP);
}

static void test_a_large_reservation_in_the_way_is_passed_over(void **state)
{
    (void)state;
    assert_child_succeeds(pass_over_a_large_reservation, NULL);
}

static void test_what_lies_at_its_start_is_noticed_before_it_is_used(void **state)
{
    (void)state;
    assert_child_succeeds(use_an_occupied_window, NULL);
}

static void take_until_refused(void *argument)
{
    (void)argument;
    limit_address_space((size_t)4 << 20);
    size_t used = 0;
    char *end = used_end();
    while (window_take(WINDOW_STEP))
        used += WINDOW_STEP;
    require(used >= (size_t)3 << 20);
    require(used_end() == end + used);
    require(!window_take(WINDOW_STEP));
}

static void test_refused_memory_changes_nothing(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(take_until_refused, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shadow_of_32_bytes_of_bits_and_none),
        cmocka_unit_test(test_a_large_reservation_in_the_way_is_passed_over),
        cmocka_unit_test(test_what_lies_at_its_start_is_noticed_before_it_is_used),
        cmocka_unit_test(test_base_is_aligned_and_the_shadow_lies_below),
        cmocka_unit_test(test_what_is_taken_adjoins_and_is_zero),
        cmocka_unit_test(test_every_unit_has_a_shadow_byte_of_its_own),
        cmocka_unit_test(test_only_starts_of_units_in_the_used_part_are_held),
        cmocka_unit_test(test_what_lies_in_the_way_is_passed_over),
        cmocka_unit_test(test_more_than_the_window_is_refused),
        cmocka_unit_test(test_threads_are_given_different_memory),
        cmocka_unit_test(test_refused_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
