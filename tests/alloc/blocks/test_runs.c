/* SPDX-License-Identifier: MIT
 *
 * test_runs.c: runs of granules: which is taken, what is merged, what keeps its contents.
 */
#include "tests/unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/blocks/runs.h"
#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/window.h"

enum { RETAIN_PERCENT = 25, MANY = 64 };

static struct runs runs;

/* A clock that stands until a test moves it. */
static uint64_t now = UINT64_C(1) << 40;

static uint64_t test_clock(void)
{
    return now;
}

static void pass_seconds(uint64_t seconds)
{
    now += seconds * 1000000000;
}

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
    runs_init(&runs, RETAIN_PERCENT, test_clock);
    decay_until(&runs.decay, now);
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

/* Of the run that was taken last. */
static struct stretch contents;

static char *take_wished(size_t granules, enum run_wish wish, bool *zero)
{
    char *start = runs_take(&runs, granules, wish, &contents);
    assert_non_null(start);
    *zero = is_empty(contents);
    assert_int_equal((uintptr_t)start % GRANULE_BYTES, 0);
    granule_map_set(start, bytes_of(granules), &in_use);
    return start;
}

static char *take_zero(size_t granules, bool *zero)
{
    return take_wished(granules, RUN_ANY, zero);
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

/* Returns how many steps it took. */
static size_t give_back_surplus(void)
{
    size_t steps = 0, granules;
    while ((granules = runs_give_back_some(&runs)) > 0) {
        assert_in_range(granules, 1, SURPLUS_STEP);
        steps++;
    }
    assert_true(runs_are_valid(&runs));
    return steps;
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
    runs.decay.least = 4;
    char *kept = take_and_fill(4);
    take(1);
    give(kept, 4);
    assert_int_equal(give_back_surplus(), 0);
    assert_ptr_equal(take_zero(4, &zero), kept);
    assert_false(zero);
    assert_int_equal(kept[bytes_of(4) - 1], 1);
    give(kept, 4);
    runs.decay.least = 1;
    pass_seconds(100);
    assert_int_equal(give_back_surplus(), 1);
    assert_int_equal(runs.dirty_granules, 0);
    assert_ptr_equal(take_zero(4, &zero), kept);
    assert_true(zero);
    assert_true(is_zero(kept, bytes_of(4)));
}

/* A program that empties its heap and fills it again finds its memory there; one that stays empty
 * has none of it after five seconds, in steps of some microseconds. */
static void test_what_was_freed_stays_for_a_moment(void **state)
{
    (void)state;
    bool zero;
    char *kept = take_and_fill(WAVE_GRANULES / 4);
    take(1);
    give(kept, WAVE_GRANULES / 4);
    give_back_surplus();
    assert_in_range(runs.dirty_granules, WAVE_GRANULES / 8, WAVE_GRANULES / 4);
    assert_ptr_equal(take_zero(WAVE_GRANULES / 8, &zero), kept);
    assert_false(zero);
    assert_int_equal(kept[bytes_of(WAVE_GRANULES / 8) - 1], 1);
    give(kept, WAVE_GRANULES / 8);
    pass_seconds(5);
    assert_true(runs_have_surplus(&runs));
    assert_true(give_back_surplus() > 1);
    assert_true(runs.dirty_granules <= runs.decay.least);
}

static void test_the_dirty_end_of_a_run_is_taken_first_or_last_as_is_wished(void **state)
{
    (void)state;
    bool zero;
    char *first = take_and_fill(2), *middle = take(4), *last = take(2);
    take(1);
    give(first, 2);
    runs_give(&runs, middle, 4, true);
    runs_give(&runs, last, 2, true);
    assert_int_equal(runs.dirty_granules, 2);
    assert_ptr_equal(take_wished(3, RUN_ZERO, &zero), middle + bytes_of(3));
    assert_true(zero);
    assert_ptr_equal(take_wished(1, RUN_ANY, &zero), first);
    assert_false(zero);
    assert_int_equal(runs.dirty_granules, 1);
    assert_ptr_equal(take_wished(4, RUN_ANY, &zero), first + bytes_of(1));
    assert_false(zero);
    assert_int_equal(runs.free_granules, 0);
}

static void test_a_zero_run_is_left_while_a_dirty_one_will_do(void **state)
{
    (void)state;
    bool zero;
    char *clean = take(2);
    take(1);
    char *dirty = take_and_fill(4);
    take(1);
    runs_give(&runs, clean, 2, true);
    give(dirty, 4);
    assert_ptr_equal(take_zero(2, &zero), dirty);
    assert_ptr_equal(take_wished(2, RUN_ZERO, &zero), clean);
    assert_true(zero);
}

static void test_who_takes_a_run_is_told_where_it_may_have_contents(void **state)
{
    (void)state;
    char *clean = take(4), *dirty = take_and_fill(2), *behind = take(4);
    take(1);
    runs_give(&runs, clean, 4, true);
    give(dirty, 2);
    runs_give(&runs, behind, 4, true);
    assert_ptr_equal(runs_take(&runs, 9, RUN_ANY, &contents), clean);
    assert_ptr_equal(contents.start, dirty);
    assert_ptr_equal(contents.end, behind);
    granule_map_set(clean, bytes_of(9), &in_use);
    assert_ptr_equal(runs_take(&runs, 1, RUN_ANY, &contents), behind + bytes_of(3));
    assert_true(is_empty(contents));
    granule_map_set(behind + bytes_of(3), GRANULE_BYTES, &in_use);
}

/* Whole heaps freed at once: what stays does not grow with them. */
static void test_of_a_heap_of_any_size_that_is_freed_at_once_at_most_32_mib_stay(void **state)
{
    static char *all[8 * WAVE_GRANULES];
    for (size_t granules = WAVE_GRANULES / 4; granules <= 8 * WAVE_GRANULES; granules *= 2) {
        make_runs(state);
        for (size_t i = 0; i < granules; i++)
            all[i] = take(1);
        for (size_t i = 0; i < granules; i++)
            runs_give(&runs, all[i], 1, false);
        give_back_surplus();
        assert_in_range(runs.dirty_granules, 0, WAVE_GRANULES / 2);
    }
}

static void test_a_run_may_span_what_is_dirty_and_what_is_not(void **state)
{
    (void)state;
    bool zero;
    char *dirty = take_and_fill(4), *clean = take(4), *other = take_and_fill(1);
    take(1);
    give(dirty, 4);
    runs_give(&runs, clean, 4, true);
    assert_int_equal(runs.dirty_granules, 4);
    give(other, 1);
    assert_int_equal(runs.dirty_granules, 5); /* and not what lies between */
    assert_ptr_equal(take_zero(9, &zero), dirty);
    assert_false(zero);
}

static void refuse_advice(void *unused)
{
    (void)unused;
    char *held = take_and_fill(8);
    take(1);
    give(held, 8);
    runs.decay.least = 0;
    pass_seconds(100);
    /* A locked page refuses MADV_DONTNEED. The address sanitizer's mlock does nothing. */
    if (syscall(SYS_mlock, held, bytes_of(8)) != 0)
        exit(0);
    require(runs_have_surplus(&runs));
    require(runs_give_back_some(&runs) == 0);
    require(runs_trim(&runs) == 0);
    require(runs.dirty_granules == 8 && runs_are_valid(&runs));
    require(syscall(SYS_munlock, held, bytes_of(8)) == 0);
    require(runs_give_back_some(&runs) == 8);
    require(runs.dirty_granules == 0 && runs_are_valid(&runs));
}

static void test_contents_that_the_kernel_does_not_take_stay_dirty(void **state)
{
    (void)state;
    assert_child_succeeds(refuse_advice, NULL);
}

/* A program may free a block of which a page is still locked. */
static void lock_one_page(void *trims)
{
    char *large = take_and_fill(100);
    take(1);
    char *other = take_and_fill(3);
    take(1);
    give(large, 100);
    give(other, 3);
    runs.decay.least = 0;
    pass_seconds(100);
    if (syscall(SYS_mlock, large + bytes_of(40), PAGE_BYTES) != 0)
        exit(0);
    if (trims)
        runs_trim(&runs);
    else
        while (runs_give_back_some(&runs) > 0)
            ;
    require(runs.dirty_granules <= 2 * SURPLUS_STEP);
    require(is_zero(other, bytes_of(3)));
    require(is_zero(large, bytes_of(40 - SURPLUS_STEP)));
    require(is_zero(large + bytes_of(41 + SURPLUS_STEP), bytes_of(59 - SURPLUS_STEP)));
    require(large[bytes_of(40)] == 1);
    require(runs_are_valid(&runs));
}

static void test_a_locked_page_keeps_no_more_than_is_round_it(void **state)
{
    (void)state;
    assert_child_succeeds(lock_one_page, NULL);
    assert_child_succeeds(lock_one_page, &runs);
}

static void test_a_run_grows_into_free_granules_right_behind_it(void **state)
{
    (void)state;
    char *run = take(2), *behind = take(4);
    take(1);
    assert_false(runs_take_at(&runs, behind, 1)); /* in use */
    give(behind, 4);
    assert_false(runs_take_at(&runs, behind + bytes_of(3), 1)); /* its end */
    assert_false(runs_take_at(&runs, behind, 5));
    assert_true(runs_take_at(&runs, run + bytes_of(2), 3));
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

/* What the kernel says of the mapping that an address lies in. */
static bool has_flag(const char *address, const char *flag)
{
    static char line[512];
    FILE *smaps = fopen("/proc/self/smaps", "r");
    assert_non_null(smaps);
    bool inside = false, found = false;
    for (uintptr_t start, end; fgets(line, sizeof line, smaps);) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2)
            inside = start <= (uintptr_t)address && (uintptr_t)address < end;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, flag) != NULL;
    }
    fclose(smaps);
    return found;
}

enum { HUGE_FROM = 40 };

static void test_a_heap_that_is_full_grows_by_huge_pages_if_asked(void **state)
{
    (void)state;
    void *page = pages_map(PAGE_BYTES, PAGE_BYTES);
    if (madvise(page, PAGE_BYTES, MADV_HUGEPAGE) != 0)
        skip(); /* a kernel without them */
    runs.huge_from = HUGE_FROM;
    for (int i = 0; i < HUGE_FROM; i++)
        assert_false(has_flag(take(1), " hg "));
    take(HUGE_GRANULES); /* may stay untouched, so it is none */
    assert_int_equal(runs.free_granules, 0);
    bool zero;
    char *first = NULL, *huge = (char *)round_up((uintptr_t)runs.area.brk, bytes_of(HUGE_GRANULES));
    size_t before = (size_t)(huge - runs.area.brk) / GRANULE_BYTES;
    for (size_t i = 0; i < before + HUGE_GRANULES; i++) {
        char *start = take_zero(1, &zero);
        assert_true(zero);
        first = i == 0 ? start : first;
        assert_true(has_flag(start, " hg ") == (start >= huge));
        assert_ptr_equal(runs.area.brk, huge + bytes_of(HUGE_GRANULES));
    }
    assert_int_equal(runs.free_granules, 0);
    /* And none is made again where a part is given back. */
    give(huge, 2);
    take(1);
    assert_true(has_flag(huge, " hg "));
    runs_trim(&runs);
    assert_true(has_flag(huge, " nh "));
    assert_true(is_zero(huge + bytes_of(1), bytes_of(1)));
    pages_unmap(page, PAGE_BYTES);
}

/* Random requests against a table of what each granule belongs to. */
static void agree_with_a_table_of_granules(void)
{
    struct {
        char *start;
        size_t granules;
        uint64_t number;
    } held[MANY] = {0};
    uint64_t random = 11;
    for (int step = 0; step < 20000; step++) {
        size_t at = random_below(&random, MANY), granules = random_between(&random, 1, 12);
        bool zero = false;
        if (!held[at].start) {
            enum run_wish wish = random_below(&random, 4) ? RUN_ANY : RUN_ZERO;
            uint64_t *start = (uint64_t *)(void *)take_wished(granules, wish, &zero);
            for (size_t i = 0; i < granules; i++) {
                uint64_t *word = start + i * GRANULE_BYTES / sizeof *start;
                assert_true(*word == 0 ||
                            ((char *)word >= contents.start && (char *)word < contents.end));
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
        if (random_below(&random, 3) == 0)
            runs_give_back_some(&runs);
        if (random_below(&random, 50) == 0)
            now += random_below(&random, 2000000000);
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

static void test_agrees_with_a_table_of_granules(void **state)
{
    agree_with_a_table_of_granules();
    make_runs(state);
    runs.huge_from = HUGE_FROM;
    agree_with_a_table_of_granules();
}

static void give_without_memory(void *unused)
{
    (void)unused;
    char *all[MANY];
    for (int i = 0; i < MANY; i++)
        all[i] = take(2);
    limit_address_space(0);
    for (char *more; (more = runs_take(&runs, 1, RUN_ANY, &contents));)
        granule_map_set(more, GRANULE_BYTES, &in_use);
    for (int i = 0; i < MANY; i += 2)
        runs_give(&runs, all[i], 2, false);
    for (int i = 1; i < MANY; i += 2)
        runs_give(&runs, all[i], 2, false);
    require(runs_are_valid(&runs));
    runs_trim(&runs);
    require(runs_take(&runs, 2 * MANY, RUN_ANY, &contents) == all[0]);
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
        TEST(test_what_was_freed_stays_for_a_moment),
        TEST(test_the_dirty_end_of_a_run_is_taken_first_or_last_as_is_wished),
        TEST(test_a_zero_run_is_left_while_a_dirty_one_will_do),
        TEST(test_who_takes_a_run_is_told_where_it_may_have_contents),
        TEST(test_of_a_heap_of_any_size_that_is_freed_at_once_at_most_32_mib_stay),
        TEST(test_a_run_may_span_what_is_dirty_and_what_is_not),
        TEST(test_contents_that_the_kernel_does_not_take_stay_dirty),
        TEST(test_a_locked_page_keeps_no_more_than_is_round_it),
        TEST(test_a_run_grows_into_free_granules_right_behind_it),
        TEST(test_the_tail_of_a_run_is_given_back),
        TEST(test_trim_gives_the_contents_of_all_free_runs_back),
        TEST(test_a_granule_for_records_comes_out_of_what_is_free),
        TEST(test_a_heap_that_is_full_grows_by_huge_pages_if_asked),
        TEST(test_agrees_with_a_table_of_granules),
        TEST(test_giving_back_needs_no_memory),
    };
    return cmocka_run_group_tests(tests, make_window, NULL);
}
