/* SPDX-License-Identifier: MIT
 *
 * test_decay.c: how much free memory stays, by bytes and by time.
 */
#include "tests/unit/unit.h"

#include "alloc/blocks/decay.h"

enum { SHARE_PERCENT = 25, MIB = 16 /* granules */, GIB = 1024 * MIB };

static const uint64_t SECOND = 1000000000, START = UINT64_C(1) << 50;

static struct decay decay;

static int make_decay(void **state)
{
    (void)state;
    decay_init(&decay, SHARE_PERCENT);
    decay_until(&decay, START);
    return 0;
}

static size_t bound(void)
{
    return decay_bound(&decay, 0);
}

static void give_by(size_t granules, size_t part)
{
    for (size_t i = 0; i < granules; i += part)
        decay_give(&decay, part);
}

static void test_a_heap_that_nothing_was_freed_of_keeps_the_least(void **state)
{
    (void)state;
    assert_int_equal(decay_bound(&decay, GIB), decay.least);
    decay.asked = 10 * MIB;
    assert_int_equal(decay_bound(&decay, GIB), 10 * MIB);
}

static void test_what_is_in_use_again_is_not_recent(void **state)
{
    (void)state;
    decay_give(&decay, 10 * MIB);
    assert_in_range(bound(), 8 * MIB, 10 * MIB);
    decay_take(&decay, 6 * MIB, 0);
    assert_in_range(bound(), 2 * MIB, 4 * MIB);
    decay_take(&decay, 6 * MIB, 0);
    assert_int_equal(bound(), decay.least);
}

/* By bytes: no clock is looked at by a program that frees and waits. */
static void test_of_a_heap_of_any_size_that_is_freed_at_once_32_mib_stay_at_most(void **state)
{
    for (size_t granules = MIB; granules <= 4 * GIB; granules *= 2) {
        make_decay(state);
        give_by(granules, 1);
        assert_in_range(bound(), 0, 32 * MIB);
        size_t kept = bound();
        make_decay(state);
        decay_give(&decay, granules);
        assert_int_equal(bound(), kept);
    }
    make_decay(state);
    give_by(900 * MIB, 1);
    assert_in_range(bound(), 0, 5 * MIB);
}

static void test_a_heap_in_waves_keeps_most_of_a_wave(void **state)
{
    (void)state;
    size_t before = 0;
    for (int wave = 0; wave < 8; wave++) {
        give_by(100 * MIB, 1);
        size_t kept = bound();
        assert_true(kept >= before || kept > 80 * MIB);
        before = kept;
        decay_discard(&decay, 100 * MIB - kept);
        decay_take(&decay, 100 * MIB, 100 * MIB - kept);
    }
    assert_in_range(before, 80 * MIB, 100 * MIB);
}

/* A program may stop calling at any moment, and then nobody looks at the clock. */
static void test_however_often_a_large_heap_came_back_most_of_it_goes_at_once(void **state)
{
    (void)state;
    for (int wave = 0; wave < 8; wave++) {
        give_by(900 * MIB, 1);
        assert_in_range(bound(), 0, 128 * MIB);
        decay_discard(&decay, 900 * MIB - bound());
        decay_take(&decay, 900 * MIB, 900 * MIB);
    }
}

static void test_five_seconds_after_the_last_wave_nothing_stays(void **state)
{
    test_a_heap_in_waves_keeps_most_of_a_wave(state);
    give_by(100 * MIB, 1);
    assert_true(bound() > 70 * MIB);
    decay_until(&decay, START + SECOND);
    assert_in_range(bound(), decay.least, 20 * MIB);
    decay_until(&decay, START + 5 * SECOND);
    assert_int_equal(bound(), decay.least);
}

static void test_regret_is_forgotten_too(void **state)
{
    test_a_heap_in_waves_keeps_most_of_a_wave(state);
    assert_true(decay.regret > 0);
    decay_until(&decay, START + 100 * SECOND);
    assert_int_equal(decay.regret, 0);
}

/* Nobody misses what he would not have found there. */
static void test_only_what_was_discarded_is_regretted(void **state)
{
    (void)state;
    decay_take(&decay, 100 * MIB, 100 * MIB);
    assert_int_equal(decay.regret, 0);
    decay_discard(&decay, 10 * MIB);
    decay_take(&decay, 100 * MIB, 0);
    assert_int_equal(decay.regret, 0);
    decay_take(&decay, 100 * MIB, 100 * MIB);
    assert_true(decay.regret >= 10 * MIB);
    assert_int_equal(decay.discarded, 0);
}

static void test_a_heap_that_moves_keeps_a_share_and_one_that_rests_does_not(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        decay_give(&decay, 100 * MIB);
        decay_take(&decay, 100 * MIB, 0);
    }
    assert_int_equal(decay.recent, 0);
    assert_int_equal(decay_bound(&decay, GIB), GIB * SHARE_PERCENT / 100);
    decay_until(&decay, START + 10 * SECOND);
    assert_int_equal(decay_bound(&decay, GIB), decay.least);
}

/* As a set of large blocks of many sizes, replaced one by one: what is free never fits. */
static void test_a_heap_that_misses_what_it_gave_back_keeps_more_but_no_more_than_it_uses(
    void **state)
{
    (void)state;
    enum { USED = 300 * MIB, PART = 15 * MIB };
    size_t before = USED * SHARE_PERCENT / 100;
    for (int i = 0; i < 40; i++) {
        decay_give(&decay, PART);
        decay_discard(&decay, PART);
        decay_take(&decay, PART, PART);
        size_t kept = decay_bound(&decay, USED);
        assert_true(kept >= before || i < USED / PART);
        assert_true(kept <= USED);
        before = i < USED / PART ? before : kept;
    }
    assert_int_equal(before, USED);
    assert_in_range(decay_bound(&decay, USED / 10), 0, USED / 10);
    decay_until(&decay, START + 5 * SECOND);
    assert_int_equal(decay_bound(&decay, USED), decay.least);
}

static void test_without_a_clock_bytes_alone_decay(void **state)
{
    (void)state;
    decay_init(&decay, SHARE_PERCENT);
    decay_until(&decay, 0);
    give_by(20 * MIB, 1);
    size_t kept = bound();
    decay_until(&decay, 0);
    assert_int_equal(bound(), kept);
    assert_in_range(kept, 10 * MIB, 20 * MIB);
}

static void test_a_clock_that_goes_back_is_as_one_that_stands(void **state)
{
    (void)state;
    give_by(20 * MIB, 1);
    size_t kept = bound();
    decay_until(&decay, START - SECOND);
    assert_int_equal(bound(), kept);
    decay_until(&decay, UINT64_MAX);
    assert_int_equal(bound(), decay.least);
}

#define TEST(name) cmocka_unit_test_setup(name, make_decay)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_heap_that_nothing_was_freed_of_keeps_the_least),
        TEST(test_what_is_in_use_again_is_not_recent),
        TEST(test_of_a_heap_of_any_size_that_is_freed_at_once_32_mib_stay_at_most),
        TEST(test_a_heap_in_waves_keeps_most_of_a_wave),
        TEST(test_however_often_a_large_heap_came_back_most_of_it_goes_at_once),
        TEST(test_five_seconds_after_the_last_wave_nothing_stays),
        TEST(test_regret_is_forgotten_too),
        TEST(test_only_what_was_discarded_is_regretted),
        TEST(test_a_heap_that_moves_keeps_a_share_and_one_that_rests_does_not),
        TEST(test_a_heap_that_misses_what_it_gave_back_keeps_more_but_no_more_than_it_uses),
        TEST(test_without_a_clock_bytes_alone_decay),
        TEST(test_a_clock_that_goes_back_is_as_one_that_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
