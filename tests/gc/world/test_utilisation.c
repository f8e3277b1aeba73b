/* SPDX-License-Identifier: MIT
 *
 * test_utilisation.c: the longest that the world stood within a window, against a model that moves
 * the window to every place.
 */
#include "gc/world/utilisation.h"

#include "tests/unit/unit.h"

#include <string.h>

static const uint64_t MICROSECOND = 1000, MILLISECOND = 1000000;

static struct utilisation utilisation;

enum { MOST_STOPS = 200 };

static struct stop {
    uint64_t begun, ended;
} stops[MOST_STOPS];
static size_t count;

static void forget_all(void)
{
    memset(&utilisation, 0, sizeof utilisation);
    count = 0;
}

static void add(uint64_t begun, uint64_t ended)
{
    assert_true(count < MOST_STOPS);
    stops[count++] = (struct stop){begun, ended};
    utilisation_add(&utilisation, begun, ended);
}

static uint64_t stopped_between(uint64_t from, uint64_t to)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t begun = stops[i].begun > from ? stops[i].begun : from;
        uint64_t ended = stops[i].ended < to ? stops[i].ended : to;
        sum += ended > begun ? ended - begun : 0;
    }
    return sum;
}

/* The model: what is stopped within a window changes its slope only where an edge of the window
 * meets an edge of a stop, so the most is at such a place. */
static uint64_t most_within(uint64_t window)
{
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t edges[] = {stops[i].begun, stops[i].ended};
        for (size_t j = 0; j < 2; j++) {
            uint64_t after = stopped_between(edges[j], edges[j] + window);
            uint64_t before = stopped_between(edges[j] - window, edges[j]);
            most = after > most ? after : most;
            most = before > most ? before : most;
        }
    }
    return most;
}

static void test_no_stop_is_no_time(void **state)
{
    (void)state;
    forget_all();
    for (int i = 0; i < UTILISATION_WINDOWS; i++)
        assert_int_equal(utilisation.longest_ns[i], 0);
}

static void test_a_stop_longer_than_the_window_fills_it(void **state)
{
    (void)state;
    forget_all();
    add(500 * MILLISECOND, 503 * MILLISECOND);
    assert_int_equal(utilisation.longest_ns[0], 1 * MILLISECOND);
    assert_int_equal(utilisation.longest_ns[1], 3 * MILLISECOND);
    assert_int_equal(utilisation.longest_ns[2], 3 * MILLISECOND);
}

static void test_short_stops_in_a_row_add_up(void **state)
{
    (void)state;
    forget_all();
    for (uint64_t i = 0; i < 100; i++) /* 0.3 of each millisecond, for 100 */
        add((500 + i) * MILLISECOND, (500 + i) * MILLISECOND + 300 * MICROSECOND);
    assert_int_equal(utilisation.longest_ns[0], 300 * MICROSECOND);
    assert_int_equal(utilisation.longest_ns[1], 3 * MILLISECOND);
    assert_int_equal(utilisation.longest_ns[2], 30 * MILLISECOND);
}

static void test_what_is_past_does_not_get_better(void **state)
{
    (void)state;
    forget_all();
    add(500 * MILLISECOND, 505 * MILLISECOND);
    add(900 * MILLISECOND, 900 * MILLISECOND + 10 * MICROSECOND);
    assert_int_equal(utilisation.longest_ns[1], 5 * MILLISECOND);
}

static void test_a_window_may_begin_before_the_clock(void **state)
{
    (void)state;
    forget_all();
    utilisation_add(&utilisation, 10 * MICROSECOND, 30 * MICROSECOND);
    for (int i = 0; i < UTILISATION_WINDOWS; i++)
        assert_int_equal(utilisation.longest_ns[i], 20 * MICROSECOND);
}

static void test_any_stops_are_as_the_model_says(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t random = seed, now = 1000 * MILLISECOND;
        uint64_t longest_gap = UINT64_C(1) << (14 + seed % 12), longest_stop = longest_gap / 2;
        forget_all();
        while (count < MOST_STOPS) {
            uint64_t begun = now + random_below(&random, longest_gap);
            now = begun + random_below(&random, longest_stop);
            add(begun, now);
        }
        for (int i = 0; i < UTILISATION_WINDOWS; i++)
            assert_int_equal(utilisation.longest_ns[i], most_within(utilisation_windows_ns[i]));
    }
}

/* More stops than are remembered, each with as much rest: what is remembered still counts. */
static void test_of_too_many_the_oldest_do_not_count(void **state)
{
    (void)state;
    forget_all();
    uint64_t now = 1000 * MILLISECOND;
    for (size_t i = 0; i < 3 * UTILISATION_STOPS; i++, now += 2 * MICROSECOND)
        utilisation_add(&utilisation, now, now + MICROSECOND);
    assert_int_equal(utilisation.longest_ns[0], 500 * MICROSECOND);
    assert_int_equal(utilisation.longest_ns[2], UTILISATION_STOPS * MICROSECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_stop_is_no_time),
        cmocka_unit_test(test_a_stop_longer_than_the_window_fills_it),
        cmocka_unit_test(test_short_stops_in_a_row_add_up),
        cmocka_unit_test(test_what_is_past_does_not_get_better),
        cmocka_unit_test(test_a_window_may_begin_before_the_clock),
        cmocka_unit_test(test_any_stops_are_as_the_model_says),
        cmocka_unit_test(test_of_too_many_the_oldest_do_not_count),
    };
    return cmocka_run_group_tests_name("utilisation", tests, NULL, NULL);
}
