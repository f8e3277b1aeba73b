/* SPDX-License-Identifier: MIT
 *
 * test_pace.c: when a collection is due, by each policy.
 */
#include "tests/unit/unit.h"

#include "vm/clock.h"
#include "vm/kernel/process.h"

static uint64_t now_ns;
static unsigned times_asked;
static unsigned idle_processors;

static uint64_t tell_time(void)
{
    times_asked++;
    return now_ns;
}

static unsigned tell_idle_processors(void)
{
    return idle_processors;
}

/* Included, not linked: its state is made anew for each test, and what it asks is answered here. */
#define monotonic_ns tell_time
#define process_idle_processors tell_idle_processors
#include "gc/cycle/pace.c"

enum { MIB = 1 << 20, KIB = 1 << 10 };

static const uint64_t MILLISECOND = 1000000, SECOND = 1000000000;

/* Whatever memory the control group of the test itself has. */
static void begin(struct pace_options options)
{
    memset(&pace, 0, sizeof pace);
    pace_init(&options);
    pace.cgroup_bytes = 0;
}

static void begin_auto(bool frees)
{
    begin((struct pace_options){.policy = POLICY_AUTO, .frees = frees});
    set(&pace.unconditional, frees ? UNCONDITIONAL_BYTES : 0);
}

/* Since the last collection, or the beginning. */
static void let_time_pass(uint64_t ns)
{
    now_ns = pace.last_ns + ns;
}

static void collect_at_overhead(unsigned percent, size_t live)
{
    const struct pace_report report = {
        .used = live,
        .live = live,
        .pause_ns = percent * MILLISECOND,
        .ran_ns = (100 - percent) * MILLISECOND,
    };
    pace_collected(&report);
}

static void test_boehm_begins_at_256_kib(void **state)
{
    (void)state;
    begin((struct pace_options){.policy = POLICY_BOEHM});
    assert_int_equal(pace_goal(), 256 * KIB);
    assert_int_equal(pace_headroom(), 0);
    assert_false(pace_is_full(255 * KIB, KIB));
    assert_true(pace_is_full(255 * KIB, KIB + 1));
    assert_false(pace_is_due(SIZE_MAX)); /* what was handed out does not count */
}

static void test_boehm_grows_by_half_when_less_than_a_quarter_comes_back(void **state)
{
    (void)state;
    begin((struct pace_options){.policy = POLICY_BOEHM, .initial_bytes = 4 * MIB});
    pace_collected(&(struct pace_report){.used = MIB, .freed = MIB});
    assert_int_equal(pace_goal(), 4 * MIB);
    pace_collected(&(struct pace_report){.used = MIB, .freed = MIB - 1});
    assert_int_equal(pace_goal(), 6 * MIB);
}

static void test_boehm_leaves_room_for_the_request_and_256_kib(void **state)
{
    (void)state;
    begin((struct pace_options){.policy = POLICY_BOEHM});
    pace_collected(&(struct pace_report){.used = 2 * MIB, .requested = MIB});
    assert_int_equal(pace_goal(), 3 * MIB + 256 * KIB);
}

static void test_ignored_frees_count_what_is_handed_out(void **state)
{
    (void)state;
    begin_auto(false);
    assert_false(pace_is_full((size_t)1 << 40, MIB)); /* the size of the heap is no measure */
    assert_false(pace_is_due(12 * MIB));
    assert_true(pace_is_due(12 * MIB + 1));
    assert_int_equal(pace_headroom(), 12 * MIB);
    assert_int_equal(pace_goal(), 12 * MIB);
}

static void test_headroom_is_a_percentage_of_live_bytes_and_roots(void **state)
{
    (void)state;
    begin_auto(false);
    pace.headroom_percent = 80;
    struct pace_report report = {.live = 90 * MIB, .roots = 10 * MIB, .allocated = 500 * MIB};
    report.pause_ns = 5 * MILLISECOND; /* an overhead that changes nothing */
    report.ran_ns = 95 * MILLISECOND;
    pace_collected(&report);
    assert_in_range(pace_headroom(), 80 * MIB - 100, 80 * MIB);
    assert_false(pace_is_due(500 * MIB + pace_headroom()));
    assert_true(pace_is_due(500 * MIB + pace_headroom() + 1));
    assert_int_equal(pace_goal(), 90 * MIB + pace_headroom());
}

static void test_a_small_quarantine_is_collected_at_each_megabyte(void **state)
{
    (void)state;
    begin((struct pace_options){.policy = POLICY_AUTO, .quarantine = true});
    assert_false(pace_is_due(MIB));
    assert_true(pace_is_due(MIB + 1));
    pace_collected(&(struct pace_report){.allocated = MIB, .live = MIB, .ran_ns = SECOND});
    assert_false(pace_is_due(2 * MIB));
    assert_true(pace_is_due(2 * MIB + 1));
}

static void test_the_first_collection_of_a_large_quarantine_is_put_off(void **state)
{
    (void)state;
    begin((struct pace_options){.policy = POLICY_AUTO, .quarantine = true});
    assert_false(pace_puts_off(4 * MIB, MIB));
    assert_true(pace_puts_off(20 * MIB, 4 * MIB));
    assert_false(pace_puts_off(20 * MIB, 5 * MIB));
    pace_collected(&(struct pace_report){.allocated = MIB, .live = MIB, .ran_ns = SECOND});
    assert_false(pace_puts_off(20 * MIB, 4 * MIB));
    begin((struct pace_options){.policy = POLICY_AUTO, .quarantine = true});
    pace_given_up(MIB, MIB, 0);
    assert_false(pace_puts_off(20 * MIB, 4 * MIB));
    begin((struct pace_options){.policy = POLICY_AUTO});
    assert_false(pace_puts_off(20 * MIB, 4 * MIB));
}

static void test_a_quarantine_that_is_not_collected_waits_for_four_megabytes(void **state)
{
    (void)state;
    begin((struct pace_options){.policy = POLICY_AUTO, .quarantine = true});
    pace_given_up(MIB, MIB, 0);
    assert_false(pace_is_due(5 * MIB));
    assert_true(pace_is_due(5 * MIB + 1));
}

static void test_headroom_has_a_least(void **state)
{
    (void)state;
    begin_auto(false);
    collect_at_overhead(5, MIB);
    assert_int_equal(pace_headroom(), 12 * MIB);
}

static void test_much_overhead_raises_headroom_and_little_lowers_it_within_bounds(void **state)
{
    (void)state;
    begin_auto(false);
    collect_at_overhead(50, 0);
    assert_int_equal(pace.headroom_percent, 120); /* 125, but for the bound */
    assert_int_equal(pace.least_headroom, 18 * MIB);
    for (int i = 0; i < 10; i++)
        collect_at_overhead(50, 0);
    assert_int_equal(pace.headroom_percent, HEADROOM_MOST_PERCENT);
    assert_int_equal(pace.least_headroom, HEADROOM_MOST_BYTES);
    for (int i = 0; i < 30; i++)
        collect_at_overhead(0, 0);
    assert_int_equal(pace.headroom_percent, HEADROOM_LEAST_PERCENT);
    assert_int_equal(pace.least_headroom, HEADROOM_LEAST_BYTES);
}

static void test_overhead_is_that_of_the_last_few_collections(void **state)
{
    (void)state;
    begin_auto(false);
    for (int i = 0; i < 10; i++)
        collect_at_overhead(5, 0);
    unsigned percent = pace.headroom_percent;
    collect_at_overhead(10, 0); /* with what came before: 7 */
    assert_int_equal(pace.headroom_percent, percent);
    collect_at_overhead(14, 0); /* 10 */
    assert_true(pace.headroom_percent > percent);
}

static void test_a_limit_is_never_passed_and_keeps_headroom_at_its_least(void **state)
{
    (void)state;
    begin((struct pace_options){.policy = POLICY_AUTO, .frees = true, .limit_bytes = 20 * MIB});
    assert_false(pace_is_over_limit(19 * MIB, MIB));
    assert_true(pace_is_over_limit(19 * MIB, MIB + 1));
    for (int i = 0; i < 5; i++)
        collect_at_overhead(50, 10 * MIB);
    assert_in_range(pace_goal(), 18 * MIB - 100, 18 * MIB); /* live and 8 MiB, the least */
    collect_at_overhead(50, 19 * MIB);
    assert_int_equal(pace_goal(), 20 * MIB);
    begin((struct pace_options){.policy = POLICY_AUTO});
    assert_false(pace_is_over_limit(SIZE_MAX / 2, MIB));
}

static void test_what_the_control_group_leaves_bounds_the_goal_while_it_can(void **state)
{
    (void)state;
    begin_auto(true);
    pace.cgroup_bytes = 50 * MIB;
    collect_at_overhead(5, 45 * MIB);
    assert_in_range(pace_goal(), 67 * MIB, 68 * MIB); /* used and half of the headroom, at least */
    collect_at_overhead(5, 30 * MIB);
    assert_int_equal(pace_goal(), 50 * MIB);
}

static void test_honoured_frees_put_off_a_collection_that_is_not_affordable(void **state)
{
    (void)state;
    begin_auto(true);
    pace.cost = MILLISECOND; /* for a megabyte */
    let_time_pass(100 * MILLISECOND);
    assert_false(pace_is_full(12 * MIB, 0)); /* the goal */
    assert_false(pace_is_full(16 * MIB, MIB));
    assert_int_equal(pace_goal(), 18 * MIB); /* where the clock is looked at again */
    let_time_pass(SECOND);                   /* of which 2% are 20 ms */
    assert_false(pace_is_full(18 * MIB, 0));
    assert_true(pace_is_full(18 * MIB, 1));
}

static void test_what_the_last_collection_cost_is_expected_of_the_next(void **state)
{
    (void)state;
    begin_auto(true);
    now_ns += 100 * SECOND;
    const struct pace_report report = {
        .used = 99 * MIB, .live = 90 * MIB, .roots = 9 * MIB, .pause_ns = 100 * MILLISECOND};
    pace_collected(&report); /* 1 ms for a megabyte */
    uint64_t ended_ns = now_ns;
    now_ns = ended_ns + (pace_goal() >> 20) * MILLISECOND * 50 - MILLISECOND;
    assert_false(pace_is_full(pace_goal(), 1)); /* which sets the goal higher */
    now_ns = ended_ns + (pace_goal() >> 20) * MILLISECOND * 50;
    assert_true(pace_is_full(pace_goal(), 1));
}

static void test_honoured_frees_do_not_put_off_for_ever(void **state)
{
    (void)state;
    begin_auto(true);
    pace.cost = SECOND;
    let_time_pass(0);
    assert_false(pace_is_full(255 * MIB, MIB));
    assert_true(pace_is_full(300 * MIB, 1));
    collect_at_overhead(5, 200 * MIB); /* so 400 is the goal, and 1600 four times as much */
    pace.cost = SECOND;
    assert_false(pace_is_full(1500 * (size_t)MIB, MIB));
    assert_true(pace_is_full(1600 * (size_t)MIB, MIB));
}

static void test_who_leaks_much_is_collected_at_the_goal(void **state)
{
    (void)state;
    begin_auto(true);
    struct pace_report report = {.used = 40 * MIB, .live = 40 * MIB, .freed = 10 * MIB + 1};
    pace_collected(&report);
    pace.cost = SECOND;
    assert_true(pace_is_full(pace_goal(), 1));
    report.freed = 10 * MIB;
    pace_collected(&report);
    pace.cost = SECOND;
    assert_false(pace_is_full(pace_goal(), 1));
}

static void test_in_a_sandbox_the_clock_is_not_asked(void **state)
{
    (void)state;
    begin_auto(true);
    pace.cost = SECOND; /* never affordable */
    times_asked = 0;
    assert_false(pace_is_full(pace_goal(), 1));
    assert_int_equal(times_asked, 1);
    pace_without_clock();
    assert_true(pace_is_full(pace_goal(), 1));
    assert_int_equal(times_asked, 1);
}

static void test_a_collection_that_is_given_up_lets_the_heap_grow(void **state)
{
    (void)state;
    begin((struct pace_options){.policy = POLICY_BOEHM});
    pace_given_up(8 * MIB, 0, 0);
    assert_int_equal(pace_goal(), 12 * MIB);
    pace_given_up(MIB, 0, 0);
    assert_int_equal(pace_goal(), 12 * MIB);
    begin_auto(false);
    pace_given_up(8 * MIB, 100 * MIB, 0);
    assert_false(pace_is_due(112 * MIB));
    assert_true(pace_is_due(112 * MIB + 1));
}

static void test_helpers_are_for_long_marks_on_idle_processors(void **state)
{
    (void)state;
    begin_auto(false);
    idle_processors = 3;
    assert_int_equal(pace_helpers(false, 8), 0); /* nothing has been marked yet */
    pace_collected(&(struct pace_report){.mark_ns = WORTH_HELPERS_NS - 1});
    assert_int_equal(pace_helpers(false, 8), 0);
    pace_collected(&(struct pace_report){.mark_ns = WORTH_HELPERS_NS});
    assert_int_equal(pace_helpers(false, 8), 3);
    assert_int_equal(pace_helpers(false, 2), 2);
    assert_int_equal(pace_helpers(false, 0), 0);
    idle_processors = 0;
    assert_int_equal(pace_helpers(false, 8), 0);
}

static void test_a_pause_goal_asks_for_helpers_sooner(void **state)
{
    (void)state;
    begin((struct pace_options){.policy = POLICY_AUTO, .pause_goal_ns = MILLISECOND});
    idle_processors = 3;
    pace_collected(&(struct pace_report){.mark_ns = MILLISECOND - 1});
    assert_int_equal(pace_helpers(false, 8), 0);
    pace_collected(&(struct pace_report){.mark_ns = MILLISECOND});
    assert_int_equal(pace_helpers(false, 8), 3);
}

/* Generations. */

static void begin_generations(uint64_t pause_goal_ns)
{
    begin((struct pace_options){
        .policy = POLICY_AUTO, .generations = true, .pause_goal_ns = pause_goal_ns});
}

/* Of a heap with 100 MiB of live bytes, after `handed_out` MiB, of which `promoted` MiB survive.
 * The minor ones follow as much of what is old again. */
static void collect_generation(bool minor, size_t handed_out, size_t promoted, size_t followed)
{
    const struct pace_report report = {
        .minor = minor,
        .ready = true,
        .used = 100 * (size_t)MIB,
        .live = 100 * (size_t)MIB,
        .allocated = pace.handed_out + handed_out * MIB,
        .promoted = promoted * MIB,
        .followed = (promoted + followed) * MIB,
        .pause_ns = MILLISECOND,
        .ran_ns = 99 * MILLISECOND,
        .fixed_ns = 2 * MILLISECOND,
    };
    pace_collected(&report);
}

static void test_a_minor_collection_is_due_after_a_nursery(void **state)
{
    (void)state;
    begin_generations(0);
    assert_true(pace_has_minors());
    assert_false(pace_wants_minor());
    collect_generation(false, 100, 10, 0);
    assert_true(pace_wants_minor());
    assert_int_equal(pace_headroom(), NURSERY_FIRST_BYTES);
    assert_true(pace_is_due(pace.handed_out + NURSERY_FIRST_BYTES + 1));
    assert_false(pace_is_due(pace.handed_out + NURSERY_FIRST_BYTES));
}

static void test_a_full_one_is_due_when_what_was_promoted_fills_its_headroom(void **state)
{
    (void)state;
    begin_generations(0);
    collect_generation(false, 100, 10, 0);
    size_t headroom = pace.headroom_of_full, promoted = 0;
    for (; promoted + NURSERY_FIRST_BYTES < headroom; promoted += 4 * MIB) {
        assert_true(pace_wants_minor());
        collect_generation(true, 8, 4, 0);
    }
    assert_false(pace_wants_minor());
    assert_true(pace_has_minors());
}

static void test_a_nursery_is_a_quarter_of_the_headroom_at_most(void **state)
{
    (void)state;
    begin_generations(0);
    pace.headroom_of_full = 16 * MIB;
    assert_int_equal(nursery(), 4 * MIB);
    pace.headroom_of_full = 4 * MIB;
    assert_int_equal(nursery(), NURSERY_LEAST_BYTES);
}

static void test_a_nursery_grows_while_stops_and_roots_cost_much(void **state)
{
    (void)state;
    begin_generations(0);
    struct pace_report report = {.pause_ns = 1000, .ran_ns = 9000, .fixed_ns = 510};
    adapt_nursery(&report);
    assert_int_equal(pace.nursery, 12 * MIB);
    report.fixed_ns = 300;
    adapt_nursery(&report);
    assert_int_equal(pace.nursery, 12 * MIB);
    report.fixed_ns = 0;
    adapt_nursery(&report);
    assert_int_equal(pace.nursery, 9 * MIB);
    begin_generations(900);
    adapt_nursery(&report);
    assert_int_equal(pace.nursery, 6 * MIB); /* the pause was too long */
    begin_generations(900);
    report.fixed_ns = 900; /* no nursery would make it short enough */
    adapt_nursery(&report);
    assert_int_equal(pace.nursery, 12 * MIB);
}

static void test_minor_collections_cease_where_much_lives_until_a_full_one_sees_less(void **state)
{
    (void)state;
    begin_generations(0);
    collect_generation(false, 100, 10, 0);
    collect_generation(true, 8, 5, 0);
    assert_false(pace_wants_minor());
    assert_false(pace_has_minors());
    for (unsigned i = 0; i < 2 * RETRY_MOST; i++)
        collect_generation(false, 100, 51, 0);
    assert_false(pace_has_minors());
    collect_generation(false, 100, 50, 0);
    assert_true(pace_has_minors());
    assert_true(pace_wants_minor());
}

/* After a late sweep what was promoted is known when all is swept. */
static void test_a_late_sweep_judges_when_it_is_over(void **state)
{
    (void)state;
    begin_generations(0);
    collect_generation(false, 100, 10, 0);
    const struct pace_report report = {.unswept = true,
                                       .ready = true,
                                       .live = 100 * (size_t)MIB,
                                       .allocated = pace.handed_out + 40 * (size_t)MIB};
    pace_collected(&report);
    assert_true(pace_has_minors());
    pace_swept(21 * (size_t)MIB);
    assert_false(pace_has_minors());
    pace_collected(&report); /* nothing was handed out since */
    pace_swept(0);
    assert_true(pace_has_minors());
}

static void test_with_a_pause_goal_they_do_not_cease_for_what_lives(void **state)
{
    (void)state;
    begin_generations(10 * MILLISECOND);
    collect_generation(false, 100, 90, 0);
    collect_generation(true, 8, 8, 0);
    assert_true(pace_wants_minor());
}

static void test_minor_collections_cease_where_much_is_dirty_and_are_tried_again(void **state)
{
    (void)state;
    begin_generations(0);
    collect_generation(false, 100, 10, 0);
    collect_generation(true, 8, 1, 50);
    assert_false(pace_wants_minor());
    assert_true(pace_has_minors()); /* the next full one is followed by one */
    collect_generation(false, 100, 10, 0);
    assert_true(pace_wants_minor());
    collect_generation(true, 8, 1, 50);
    assert_false(pace_has_minors());
    collect_generation(false, 100, 10, 0);
    assert_true(pace_has_minors());
    assert_false(pace_wants_minor());
    collect_generation(false, 100, 10, 0);
    assert_true(pace_wants_minor());
    collect_generation(true, 8, 1, 49);
    assert_int_equal(pace.retry_after, 0);
}

static void test_a_cycle_is_for_long_marking(void **state)
{
    (void)state;
    struct pace_report report = {.live = 40 * MIB, .mark_ns = MILLISECOND / 2};
    begin_auto(false);
    assert_true(pace_goal() >= MIB && pace_wants_cycle()); /* the first is guessed */
    pace_collected(&report);
    assert_false(pace_wants_cycle());
    report.slices_ns = MILLISECOND;
    pace_collected(&report);
    assert_true(pace_wants_cycle());
    assert_true(pace_room_of_cycle() >= 40 * MIB / 8 && pace_room_of_cycle() < 40 * MIB);
    begin((struct pace_options){.policy = POLICY_BOEHM});
    pace_collected(&report);
    assert_false(pace_wants_cycle());
}

static void test_slices_count_as_pauses(void **state)
{
    (void)state;
    begin_auto(false);
    for (unsigned i = 0; i < 20; i++)
        pace_collected(&(struct pace_report){
            .live = 40 * MIB, .pause_ns = 1, .ran_ns = SECOND, .slices_ns = SECOND / 2});
    assert_int_equal(pace.headroom_percent, HEADROOM_MOST_PERCENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cycle_is_for_long_marking),
        cmocka_unit_test(test_slices_count_as_pauses),
        cmocka_unit_test(test_a_minor_collection_is_due_after_a_nursery),
        cmocka_unit_test(test_a_full_one_is_due_when_what_was_promoted_fills_its_headroom),
        cmocka_unit_test(test_a_nursery_is_a_quarter_of_the_headroom_at_most),
        cmocka_unit_test(test_a_nursery_grows_while_stops_and_roots_cost_much),
        cmocka_unit_test(test_minor_collections_cease_where_much_lives_until_a_full_one_sees_less),
        cmocka_unit_test(test_a_late_sweep_judges_when_it_is_over),
        cmocka_unit_test(test_with_a_pause_goal_they_do_not_cease_for_what_lives),
        cmocka_unit_test(test_minor_collections_cease_where_much_is_dirty_and_are_tried_again),
        cmocka_unit_test(test_boehm_begins_at_256_kib),
        cmocka_unit_test(test_boehm_grows_by_half_when_less_than_a_quarter_comes_back),
        cmocka_unit_test(test_boehm_leaves_room_for_the_request_and_256_kib),
        cmocka_unit_test(test_ignored_frees_count_what_is_handed_out),
        cmocka_unit_test(test_headroom_is_a_percentage_of_live_bytes_and_roots),
        cmocka_unit_test(test_a_small_quarantine_is_collected_at_each_megabyte),
        cmocka_unit_test(test_the_first_collection_of_a_large_quarantine_is_put_off),
        cmocka_unit_test(test_a_quarantine_that_is_not_collected_waits_for_four_megabytes),
        cmocka_unit_test(test_headroom_has_a_least),
        cmocka_unit_test(test_much_overhead_raises_headroom_and_little_lowers_it_within_bounds),
        cmocka_unit_test(test_overhead_is_that_of_the_last_few_collections),
        cmocka_unit_test(test_a_limit_is_never_passed_and_keeps_headroom_at_its_least),
        cmocka_unit_test(test_what_the_control_group_leaves_bounds_the_goal_while_it_can),
        cmocka_unit_test(test_honoured_frees_put_off_a_collection_that_is_not_affordable),
        cmocka_unit_test(test_what_the_last_collection_cost_is_expected_of_the_next),
        cmocka_unit_test(test_honoured_frees_do_not_put_off_for_ever),
        cmocka_unit_test(test_who_leaks_much_is_collected_at_the_goal),
        cmocka_unit_test(test_in_a_sandbox_the_clock_is_not_asked),
        cmocka_unit_test(test_a_collection_that_is_given_up_lets_the_heap_grow),
        cmocka_unit_test(test_helpers_are_for_long_marks_on_idle_processors),
        cmocka_unit_test(test_a_pause_goal_asks_for_helpers_sooner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
