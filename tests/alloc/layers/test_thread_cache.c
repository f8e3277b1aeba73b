/* SPDX-License-Identifier: MIT
 *
 * test_thread_cache.c: a bin of free blocks against a stack, its counters wherever they may be
 * in their round.
 */
#include "tests/unit/unit.h"

#include "alloc/layers/thread_cache.h"

enum { CAPACITY = 10, BLOCKS = 32 };
static void *blocks[BLOCKS][2]; /* room for a link each */

static size_t list_length(const void *list)
{
    size_t length = 0;
    for (; list; list = *(void *const *)list)
        length++;
    return length;
}

static void test_a_bin_without_capacity_is_empty_and_full(void **state)
{
    (void)state;
    struct cache_bin bin = {0};
    assert_null(cache_bin_take(&bin));
    assert_int_equal(cache_bin_room(&bin), 0);
    assert_int_equal(cache_bin_count(&bin), 0);
    assert_null(cache_bin_empty(&bin).blocks);
    assert_null(cache_bin_take_reserve(&bin).blocks);
}

static void compare_with_stack(uint32_t counters)
{
    struct cache_bin bin = {
        .frees = counters, .allowed = counters + CAPACITY, .capacity = CAPACITY};
    void *stack[CAPACITY];
    uint32_t height = 0;
    uint64_t random = 1 + counters;
    for (unsigned step = 0; step < 10000; step++) {
        uint64_t choice = random_next(&random) % 100;
        if (choice == 0) {
            struct chain chain = cache_bin_empty(&bin);
            assert_int_equal(list_length(chain.blocks), height);
            assert_int_equal(chain.count, height);
            if (height % 2)
                cache_bin_fill(&bin, chain);
            else
                height = 0;
        } else if (choice < 50) {
            void *taken = cache_bin_take(&bin);
            assert_ptr_equal(taken, height > 0 ? stack[--height] : NULL);
        } else if (cache_bin_room(&bin) > 0) {
            stack[height] = blocks[height];
            cache_bin_put(&bin, stack[height++]);
        }
        assert_int_equal(cache_bin_count(&bin), height);
        assert_int_equal(cache_bin_room(&bin), CAPACITY - height);
    }
}

static void test_a_bin_is_a_stack_of_bounded_height(void **state)
{
    (void)state;
    static const uint32_t counters[] = {0, 1, INT32_MAX, UINT32_MAX - 5000, UINT32_MAX};
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        compare_with_stack(counters[i]);
}

/* The bin's thread frees and allocates while another reads one counter, then the other. */
static void test_another_threads_count_is_never_more_than_the_bin_may_hold(void **state)
{
    (void)state;
    static const uint32_t counters[] = {0, 1, INT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        for (uint32_t later = 0; later < 2 * CAPACITY; later++) {
            struct cache_bin read_allowed_first = {.allowed = counters[i] + CAPACITY,
                                                   .frees = counters[i] + later,
                                                   .capacity = CAPACITY};
            struct cache_bin read_frees_first = {.allowed = counters[i] + CAPACITY + later,
                                                 .frees = counters[i],
                                                 .capacity = CAPACITY};
            assert_in_range(cache_bin_count_of_other(&read_allowed_first), 0, CAPACITY);
            assert_in_range(cache_bin_count_of_other(&read_frees_first), 0, CAPACITY);
            if (later <= CAPACITY)
                assert_int_equal(cache_bin_count_of_other(&read_allowed_first), later);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bin_without_capacity_is_empty_and_full),
        cmocka_unit_test(test_a_bin_is_a_stack_of_bounded_height),
        cmocka_unit_test(test_another_threads_count_is_never_more_than_the_bin_may_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
