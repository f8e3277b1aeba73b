/* SPDX-License-Identifier: MIT
 *
 * test_timeline.c: points are an interval apart, cheap, and never too many.
 */
#include "shim/observers/timeline.h"

#include "tests/unit/unit.h"

static struct timeline timeline;

/* Runs for so long; each point takes `cost`. Returns how many points were taken. */
static unsigned run(uint64_t length_ns, uint64_t cost_ns)
{
    unsigned taken = 0;
    timeline = (struct timeline){0};
    for (uint64_t now = 0; now < length_ns; now += 100000)
        if (timeline_is_due(&timeline, now)) {
            struct timeline_point point = {.nanoseconds = now, .requested = now / 2};
            timeline_add(&timeline, &point, now + cost_ns);
            taken++;
        }
    return taken;
}

static void test_points_are_a_millisecond_apart(void **state)
{
    (void)state;
    assert_int_equal(run(100000000, 0), 100);
    assert_int_equal(timeline.count, 100);
    for (size_t i = 0; i < timeline.count; i++) {
        assert_int_equal(timeline.points[i].nanoseconds, i * 1000000);
        assert_int_equal(timeline.points[i].requested, i * 500000);
    }
}

static void test_a_full_timeline_keeps_every_second_point(void **state)
{
    (void)state;
    run(5120 * UINT64_C(1000000), 0);
    assert_true(timeline.count > TIMELINE_POINTS / 2 && timeline.count <= TIMELINE_POINTS);
    uint64_t interval = timeline.points[1].nanoseconds - timeline.points[0].nanoseconds;
    assert_int_equal(interval, timeline.interval);
    assert_int_equal(timeline.points[0].nanoseconds, 0);
    for (size_t i = 1; i < timeline.count; i++)
        assert_int_equal(timeline.points[i].nanoseconds,
                         timeline.points[i - 1].nanoseconds + interval);
}

static void test_points_take_a_tenth_of_the_time_at_most(void **state)
{
    (void)state;
    uint64_t length = 1000000000, cost = 2000000;
    unsigned taken = run(length, cost);
    assert_true(taken > 20);
    assert_true((taken - 1) * 10 * cost <= length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points_are_a_millisecond_apart),
        cmocka_unit_test(test_a_full_timeline_keeps_every_second_point),
        cmocka_unit_test(test_points_take_a_tenth_of_the_time_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
