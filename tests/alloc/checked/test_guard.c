/* SPDX-License-Identifier: MIT
 *
 * test_guard.c: which allocations are sampled, by random numbers that the test begins, and what
 * becomes of sampled blocks.
 */
#include "tests/unit/unit.h"

#include <pthread.h>

/* Its state is set here, and its functions are called without the handler of faults. */
#include "alloc/checked/guard.c"

enum { SLOTS = 8, MOST_LIVE = 6, NEVER = 1000000000 };

static int start(void **state)
{
    (void)state;
    report_init(false, 1000);
    pool_init(SLOTS);
    blocks_heap.free_guarded = free_guarded;
    return blocks_init(25, NULL) ? 0 : -1;
}

/* From here on one in `n`, the next one first if it is a thread's first. */
static void sample_one_in(uint64_t n)
{
    one_in = n;
    draws = 1;
    until_sample = n == 1 ? 1 : NOT_BEGUN;
}

static void sample_none(void)
{
    one_in = NEVER;
    until_sample = NEVER;
}

static void test_without_a_sample_there_is_no_pool(void **state)
{
    (void)state;
    sample_none();
    for (int i = 0; i < 1000; i++) {
        void *block = guard_alloc(40);
        assert_non_null(block);
        blocks_free(block);
    }
    assert_null(pool_start);
}

/* One in N; between two of them 0 to 2N - 2 allocations, each number as often. */
static void test_gaps_between_samples_are_spread_evenly(void **state)
{
    (void)state;
    enum { N = 5, ALLOCATIONS = 45000, EXPECTED = ALLOCATIONS / N };
    size_t gaps[2 * N] = {0}, gap = 0, samples = 0;
    sample_one_in(N);
    for (size_t i = 0; i < ALLOCATIONS; i++, gap++) {
        void *block = guard_alloc(40);
        if (pool_holds(block)) {
            assert_in_range(gap, 0, 2 * N - 2);
            gaps[gap]++;
            samples++;
            gap = SIZE_MAX; /* 0 before the next */
        }
        blocks_free(block);
    }
    assert_in_range(samples, EXPECTED * 95 / 100, EXPECTED * 105 / 100);
    for (size_t i = 0; i < 2 * N - 1; i++)
        assert_in_range(gaps[i], EXPECTED / (2 * N - 1) * 8 / 10, EXPECTED / (2 * N - 1) * 12 / 10);
}

static void *count_to_first_sample(void *first)
{
    bool sampled = false;
    while (!sampled) {
        void *block = guard_alloc(40);
        sampled = pool_holds(block);
        blocks_free(block);
        ++*(size_t *)first;
    }
    blocks_thread_exit();
    return NULL;
}

static void test_a_threads_first_sample_is_any_of_its_first_n_allocations(void **state)
{
    (void)state;
    enum { N = 5, THREADS = 1000 };
    size_t firsts[N + 1] = {0};
    sample_one_in(N);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        size_t first = 0;
        assert_int_equal(pthread_create(&thread, NULL, count_to_first_sample, &first), 0);
        pthread_join(thread, NULL);
        assert_in_range(first, 1, N);
        firsts[first]++;
    }
    for (size_t i = 1; i <= N; i++)
        assert_in_range(firsts[i], THREADS / N * 7 / 10, THREADS / N * 13 / 10);
}

static void test_every_kind_of_allocation_is_sampled(void **state)
{
    (void)state;
    sample_one_in(1);
    char *plain = guard_alloc(40), *zeroed = guard_alloc_zeroed(40);
    char *aligned = guard_alloc_aligned(512, 40);
    assert_true(pool_holds(plain) && pool_holds(zeroed) && pool_holds(aligned));
    assert_true(is_zero(zeroed, 40));
    assert_int_equal((uintptr_t)aligned % 512, 0);
    assert_int_equal(guard_usable_size(plain), 40);
    blocks_free(plain);
    blocks_free(zeroed);
    blocks_free(aligned);
    assert_int_equal(guard_usable_size(plain), 0);
}

static void find_number(void *number, const char *group, const char *key, uint64_t value)
{
    uint64_t *numbers = number;
    assert_string_equal(group, "guard");
    numbers[strcmp(key, "live_blocks") == 0 ? 0 : strcmp(key, "passed_over") == 0 ? 1 : 2] = value;
}

static void test_where_the_pool_has_no_room_blocks_are_plain(void **state)
{
    (void)state;
    enum { MANY = MOST_LIVE + 4 };
    char *blocks[MANY];
    uint64_t before[3], after[3];
    guard_statistics(find_number, before);
    sample_one_in(1);
    for (size_t i = 0; i < MANY; i++) {
        blocks[i] = i % 2 ? guard_alloc(40) : guard_alloc_zeroed(40);
        assert_non_null(blocks[i]);
        assert_int_equal(pool_holds(blocks[i]), i < MOST_LIVE);
        assert_true(i % 2 || is_zero(blocks[i], 40));
    }
    char *large = guard_alloc(PAGE_BYTES + 1), *apart = guard_alloc_aligned(2 * PAGE_BYTES, 40);
    assert_false(pool_holds(large) || pool_holds(apart));
    assert_int_equal((uintptr_t)apart % (2 * PAGE_BYTES), 0);
    guard_statistics(find_number, after);
    assert_int_equal(after[0], MOST_LIVE);
    assert_int_equal(after[1] - before[1], MANY - MOST_LIVE);
    assert_int_equal(after[2] - before[2], MOST_LIVE);
    blocks_free(large);
    blocks_free(apart);
    for (size_t i = 0; i < MANY; i++)
        blocks_free(blocks[i]);
    assert_true(blocks_is_valid());
}

static void test_a_sampled_block_moves_at_each_change_of_its_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {41, 80, 3, 4000, 40};
    sample_one_in(1);
    char *block = guard_alloc(40);
    size_t bytes = 40;
    memset(block, 7, 40);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_ptr_equal(guard_resize(block, bytes), block);
        if (i == 3)
            sample_none(); /* the next is a plain one, and stays where it is */
        char *moved = guard_resize(block, sizes[i]);
        assert_non_null(moved);
        assert_int_equal(pool_holds(moved), i < 3);
        if (i <= 3) {
            assert_ptr_not_equal(moved, block);
            assert_false(is_readable(block));
        }
        for (size_t at = 0; at < 3; at++)
            assert_int_equal(moved[at], 7);
        block = moved;
        bytes = sizes[i];
    }
    blocks_free(block);
}

static void test_a_plain_block_is_sampled_when_it_grows_and_not_when_it_shrinks(void **state)
{
    (void)state;
    sample_none();
    char *block = guard_alloc(40);
    assert_false(pool_holds(block));
    memset(block, 7, 40);
    sample_one_in(1);
    block = guard_resize(block, 30);
    assert_false(pool_holds(block));
    char *grown = guard_resize(block, 1000);
    assert_true(pool_holds(grown));
    assert_int_equal(guard_usable_size(grown), 1000);
    assert_int_equal(guard_usable_size(block), 0);
    for (size_t i = 0; i < 30; i++)
        assert_int_equal(grown[i], 7);
    blocks_free(grown);
}

static void test_a_sample_that_a_shrinking_block_does_not_take_is_the_next_blocks(void **state)
{
    (void)state;
    sample_none();
    char *block = guard_alloc(40);
    until_sample = 1;
    block = guard_resize(block, 30);
    assert_false(pool_holds(block));
    char *next = guard_alloc(40);
    assert_true(pool_holds(next));
    blocks_free(next);
    until_sample = NOT_BEGUN;
    block = guard_resize(block, 20);
    assert_int_equal(until_sample, NOT_BEGUN);
    blocks_free(block);
}

static void count_bytes(void *bytes, const struct block_info *info)
{
    *(size_t *)bytes += info->state == BLOCK_LIVE ? info->usable_bytes : 0;
}

static void test_a_walk_meets_sampled_and_plain_blocks(void **state)
{
    (void)state;
    size_t before = 0, after = 0;
    guard_walk(count_bytes, &before);
    sample_one_in(1);
    void *sampled = guard_alloc(40);
    sample_none();
    void *plain = guard_alloc(48);
    guard_walk(count_bytes, &after);
    assert_int_equal(after - before, 40 + 48);
    blocks_free(sampled);
    blocks_free(plain);
}

static void shrink_without_memory(void *unused)
{
    (void)unused;
    sample_one_in(1);
    char *block = guard_alloc(3000);
    require(pool_holds(block));
    block[9] = 1;
    sample_none();
    blocks_heap.runs.area.held = true;
    while (blocks_alloc(10))
        ;
    require(!guard_resize(block, 3001 + MOST_LIVE * PAGE_BYTES));
    require(guard_resize(block, 10) == block);
    require(block[9] == 1);
    pool_free(block, "free");
}

static void test_a_sampled_block_stays_where_there_is_no_memory_for_a_smaller_one(void **state)
{
    (void)state;
    assert_child_succeeds(shrink_without_memory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_sample_there_is_no_pool), /* first */
        cmocka_unit_test(test_gaps_between_samples_are_spread_evenly),
        cmocka_unit_test(test_a_threads_first_sample_is_any_of_its_first_n_allocations),
        cmocka_unit_test(test_every_kind_of_allocation_is_sampled),
        cmocka_unit_test(test_where_the_pool_has_no_room_blocks_are_plain),
        cmocka_unit_test(test_a_sampled_block_moves_at_each_change_of_its_size),
        cmocka_unit_test(test_a_plain_block_is_sampled_when_it_grows_and_not_when_it_shrinks),
        cmocka_unit_test(test_a_sample_that_a_shrinking_block_does_not_take_is_the_next_blocks),
        cmocka_unit_test(test_a_sampled_block_stays_where_there_is_no_memory_for_a_smaller_one),
        cmocka_unit_test(test_a_walk_meets_sampled_and_plain_blocks),
    };
    return cmocka_run_group_tests_name("sampled blocks", tests, start, NULL);
}
