/* SPDX-License-Identifier: MIT
 *
 * test_runs.c: runs of granules: which is taken, what is merged, what keeps its memory.
 */
#include "tests/unit/unit.h"

#include <string.h>

#include "alloc/blocks/runs.h"
#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/window.h"

enum { RETAIN_PERCENT = 25, MANY = 64 };

static struct runs runs;

static int make_window(void **state)
{
    (void)state;
    window_init(4);
    return 0;
}

/* The runs of a test lie behind those of the test before, with memory of another's between: they
 * would be merged. */
static int make_runs(void **state)
{
    (void)state;
    static struct owner another = {OWNER_RECORDS};
    struct area between;
    area_init(&between, &another);
    assert_non_null(area_extend(&between, GRANULE_BYTES));
    memset(&runs, 0, sizeof runs);
    runs_init(&runs, RETAIN_PERCENT);
    return 0;
}

static int check_runs(void **state)
{
    (void)state;
    assert_true(runs_are_valid(&runs));
    return 0;
}

static size_t bytes_of(size_t granules)
{
    return granules * GRANULE_BYTES;
}

/* Who takes granules enters its owner for them: until then the map calls them free. */
static struct owner in_use = {OWNER_LARGE};

static char *take_zero(size_t granules, bool *zero)
{
    char *start = runs_take(&runs, granules, zero);
    assert_non_null(start);
    assert_int_equal((uintptr_t)start % GRANULE_BYTES, 0);
    granule_map_set(start, bytes_of(granules), &in_use);
    return start;
}

static char *take(size_t granules)
{
    bool zero;
    return take_zero(granules, &zero);
}

static char *take_and_fill(size_t granules)
{
    return memset(take(granules), 1, granules * GRANULE_BYTES);
}

static void give(char *start, size_t granules)
{
    runs_give(&runs, start, granules, false);
    assert_true(runs_are_valid(&runs));
}

static void test_fresh_runs_adjoin_and_are_zero(void **state)
{
    (void)state;
    bool zero;
    char *first = take_zero(3, &zero), *second = take_zero(1, &zero);
    assert_true(zero);
    assert_ptr_equal(second, first + bytes_of(3));
    assert_true(is_zero(first, bytes_of(4)));
    assert_int_equal(runs.used_runs, 2);
    assert_int_equal(runs.used_granules, 4);
}

static void test_free_neighbours_are_merged_in_whatever_order_they_come(void **state)
{
    (void)state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int order = 0; order < 6; order++) {
        char *parts[3] = {take(1), take(2), take(3)};
        take(1);
        for (int i = 0; i < 3; i++)
            give(parts[orders[order][i]], (size_t)orders[order][i] + 1);
        assert_ptr_equal(take(6), parts[0]);
    }
}

static void test_the_shortest_run_that_is_long_enough_is_taken(void **state)
{
    (void)state;
    static const size_t lengths[] = {9, 4, RUN_LENGTHS + 2, 6, RUN_LENGTHS + 6};
    char *holes[5];
    for (int i = 0; i < 5; i++) {
        holes[i] = take(lengths[i]);
        take(1);
    }
    for (int i = 0; i < 5; i++)
        give(holes[i], lengths[i]);
    assert_ptr_equal(take(4), holes[1]);
    assert_ptr_equal(take(5), holes[3]);
    assert_ptr_equal(take(2), holes[0]); /* which leaves one of 6 and one of 7 */
    assert_ptr_equal(take(RUN_LENGTHS + 1), holes[2]);
    assert_ptr_equal(take(RUN_LENGTHS), holes[4]);
}

static void test_a_heap_that_ends_in_a_free_run_grows_by_less(void **state)
{
    (void)state;
    take(1);
    char *last = take(5);
    give(last, 5);
    size_t bytes = runs.area.bytes;
    assert_ptr_equal(take(8), last);
    assert_int_equal(runs.area.bytes - bytes, bytes_of(3));
}

static void test_within_the_bound_contents_stay_and_beyond_it_they_go(void **state)
{
    (void)state;
    bool zero;
    runs.retain_least = 4;
    runs.retain_percent = 0;
    char *kept = take_and_fill(4);
    runs.recent = 0;
    take(1);
    give(kept, 4);
    assert_ptr_equal(take_zero(4, &zero), kept);
    assert_false(zero);
    assert_int_equal(kept[bytes_of(4) - 1], 1);
    runs.retain_least = 3;
    runs.recent = 0;
    runs_give(&runs, kept, 4, false);
    runs.recent = 0; /* what it has just come to be */
    runs_trim(&runs);
    assert_ptr_equal(take_zero(4, &zero), kept);
    assert_true(zero);
    assert_true(is_zero(kept, bytes_of(4)));
}

/* A share of what is in use, which the retained memory follows down. */
static void test_what_is_retained_is_a_share_of_what_is_used(void **state)
{
    (void)state;
    char *all[MANY];
    runs.retain_least = 0;
    for (int i = 0; i < MANY; i++)
        all[i] = take_and_fill(16);
    for (int i = 0; i < MANY; i += 2) {
        give(all[i], 16);
        size_t share = runs.used_granules * RETAIN_PERCENT / 100;
        size_t recent = runs.recent / DECAY_GRANULES;
        assert_true(runs.dirty_granules <= (share > recent ? share : recent));
    }
    assert_int_equal(runs.free_granules, MANY / 2 * 16);
    assert_true(runs.dirty_granules > 0);
    for (int i = 0; i < MANY; i += 2)
        take(16);
    assert_int_equal(runs.recent, 0);
}

/* Whole heaps freed at once: what stays does not grow with them. */
static void test_of_a_heap_of_any_size_that_is_freed_at_once_at_most_64_mib_stay(void **state)
{
    static char *all[8 * DECAY_GRANULES];
    size_t before = 0;
    for (size_t granules = DECAY_GRANULES / 4; granules <= 8 * DECAY_GRANULES; granules *= 2) {
        make_runs(state);
        for (size_t i = 0; i < granules; i++)
            all[i] = take(1);
        for (size_t i = 0; i < granules; i++)
            runs_give(&runs, all[i], 1, false);
        assert_true(runs_are_valid(&runs));
        assert_in_range(runs.dirty_granules, before, DECAY_GRANULES);
        before = runs.dirty_granules;
    }
}

static void test_dirty_and_zero_runs_stay_apart_until_one_spans_both(void **state)
{
    (void)state;
    bool zero;
    char *dirty = take_and_fill(4), *clean = take(4);
    take(1);
    char *other = take(2);
    take(1);
    give(dirty, 4);
    runs_give(&runs, clean, 4, true);
    assert_int_equal(runs.dirty_granules, 4);
    assert_int_equal(runs.free_granules, 8);
    size_t bytes = runs.area.bytes;
    take(5); /* more than half of what is free: not worth the contents */
    assert_int_equal(runs.area.bytes, bytes + bytes_of(5));
    runs_give(&runs, other, 2, true);
    assert_ptr_equal(take_zero(5, &zero), dirty);
    assert_true(zero);
    assert_true(is_zero(dirty, bytes_of(5)));
}

static void test_a_run_grows_into_free_granules_right_behind_it(void **state)
{
    (void)state;
    bool zero;
    char *run = take(2), *behind = take(4);
    take(1);
    assert_false(runs_take_at(&runs, behind, 1, &zero)); /* in use */
    give(behind, 4);
    assert_false(runs_take_at(&runs, behind + bytes_of(3), 1, &zero)); /* its end */
    assert_false(runs_take_at(&runs, behind, 5, &zero));
    assert_true(runs_take_at(&runs, run + bytes_of(2), 3, &zero));
    assert_int_equal(runs.free_granules, 1);
    assert_ptr_equal(take(1), behind + bytes_of(3));
}

static void test_the_tail_of_a_run_is_given_back(void **state)
{
    (void)state;
    char *run = take_and_fill(5);
    take(1);
    assert_true(runs_give_tail(&runs, run + bytes_of(2), 3));
    assert_int_equal(runs.used_runs, 2);
    assert_int_equal(runs.used_granules, 3);
    assert_int_equal(run[bytes_of(2) - 1], 1);
    assert_ptr_equal(take(3), run + bytes_of(2));
}

static void test_trim_gives_the_contents_of_all_free_runs_back(void **state)
{
    (void)state;
    char *holes[3];
    for (int i = 0; i < 3; i++) {
        holes[i] = take_and_fill(2);
        take(1);
    }
    for (int i = 0; i < 3; i++)
        give(holes[i], 2);
    assert_int_equal(runs_trim(&runs), bytes_of(6));
    assert_int_equal(runs.dirty_granules, 0);
    assert_int_equal(runs_trim(&runs), 0);
    for (int i = 0; i < 3; i++)
        assert_true(is_zero(holes[i], bytes_of(2)));
}

static void test_a_granule_for_records_comes_out_of_what_is_free(void **state)
{
    (void)state;
    assert_null(runs_take_for_records(&runs));
    char *run = take_and_fill(2);
    take(1);
    give(run, 2);
    size_t used = runs.used_granules;
    char *granule = runs_take_for_records(&runs);
    assert_ptr_equal(granule, run);
    assert_true(is_zero(granule, GRANULE_BYTES));
    assert_int_equal(runs.used_granules, used);
    assert_int_equal(((struct owner *)granule_map_get(granule))->kind, OWNER_RECORDS);
}

/* Random requests against a table of what each granule belongs to. */
static void test_agrees_with_a_table_of_granules(void **state)
{
    (void)state;
    static struct {
        char *start;
        size_t granules;
        uint64_t number;
    } held[MANY];
    uint64_t random = 11;
    for (int step = 0; step < 20000; step++) {
        size_t at = random_below(&random, MANY), granules = random_between(&random, 1, 12);
        bool zero = false;
        if (!held[at].start) {
            uint64_t *start = (uint64_t *)(void *)take_zero(granules, &zero);
            for (size_t i = 0; i < granules; i++) {
                uint64_t *word = start + i * GRANULE_BYTES / sizeof *start;
                assert_true(!zero || *word == 0);
                *word = (uint64_t)step + i;
            }
            held[at].start = (char *)start;
            held[at].granules = granules;
            held[at].number = (uint64_t)step;
            continue;
        }
        for (size_t i = 0; i < held[at].granules; i++)
            assert_int_equal(*(uint64_t *)(void *)(held[at].start + bytes_of(i)),
                             held[at].number + i);
        if (held[at].granules > 1 && granules < held[at].granules) {
            assert_true(runs_give_tail(&runs, held[at].start + bytes_of(granules),
                                       held[at].granules - granules));
            held[at].granules = granules;
        } else {
            runs_give(&runs, held[at].start, held[at].granules, false);
            held[at].start = NULL;
        }
        if (step % 100 == 0) {
            size_t used = 0;
            for (int i = 0; i < MANY; i++)
                used += held[i].start ? held[i].granules : 0;
            assert_int_equal(runs.used_granules, used);
            assert_int_equal(bytes_of(used + runs.free_granules), runs.area.bytes);
            assert_true(runs_are_valid(&runs));
        }
    }
}

static void give_without_memory(void *unused)
{
    (void)unused;
    char *all[MANY];
    for (int i = 0; i < MANY; i++)
        all[i] = take(2);
    limit_address_space(0);
    bool zero;
    for (char *more; (more = runs_take(&runs, 1, &zero));)
        granule_map_set(more, GRANULE_BYTES, &in_use);
    for (int i = 0; i < MANY; i += 2)
        runs_give(&runs, all[i], 2, false);
    for (int i = 1; i < MANY; i += 2)
        runs_give(&runs, all[i], 2, false);
    require(runs_are_valid(&runs));
    runs_trim(&runs);
    require(runs_take(&runs, 2 * MANY, &zero) == all[0]);
}

static void test_giving_back_needs_no_memory(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(give_without_memory, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_runs, check_runs)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fresh_runs_adjoin_and_are_zero),
        TEST(test_free_neighbours_are_merged_in_whatever_order_they_come),
        TEST(test_the_shortest_run_that_is_long_enough_is_taken),
        TEST(test_a_heap_that_ends_in_a_free_run_grows_by_less),
        TEST(test_within_the_bound_contents_stay_and_beyond_it_they_go),
        TEST(test_what_is_retained_is_a_share_of_what_is_used),
        TEST(test_of_a_heap_of_any_size_that_is_freed_at_once_at_most_64_mib_stay),
        TEST(test_dirty_and_zero_runs_stay_apart_until_one_spans_both),
        TEST(test_a_run_grows_into_free_granules_right_behind_it),
        TEST(test_the_tail_of_a_run_is_given_back),
        TEST(test_trim_gives_the_contents_of_all_free_runs_back),
        TEST(test_a_granule_for_records_comes_out_of_what_is_free),
        TEST(test_agrees_with_a_table_of_granules),
        TEST(test_giving_back_needs_no_memory),
    };
    return cmocka_run_group_tests(tests, make_window, NULL);
}
