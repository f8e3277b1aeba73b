/* SPDX-License-Identifier: MIT
 *
 * test_granule_map.c: the table of owners. It maps addresses, mapped or not, so most of these are
 * made up.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <string.h>

#include "vm/granule_map.h"
#include "vm/pages.h"

static struct granule_map map;
static int one, two; /* only their addresses are used */

static char *at(uintptr_t address)
{
    return (char *)address;
}

#define LEAF_REACH ((uintptr_t)1 << (GRANULE_BITS + GRANULE_MAP_LEAF_BITS))

static void test_an_empty_map_knows_nothing(void **state)
{
    (void)state;
    assert_null(granule_map_look_up(&map, NULL));
    assert_null(granule_map_look_up(&map, &map));
    assert_null(granule_map_look_up(&map, at(((uintptr_t)1 << 47) - 1)));
    assert_null(granule_map_look_up(&map, at((uintptr_t)1 << 47)));
    assert_null(granule_map_look_up(&map, at(UINTPTR_MAX)));
}

static void test_all_granules_that_a_range_touches_are_entered(void **state)
{
    (void)state;
    char *start = at(7 * LEAF_REACH);
    assert_true(granule_map_enter(&map, start, 2 * GRANULE_BYTES + 1, &one));
    assert_null(granule_map_look_up(&map, start - 1));
    assert_ptr_equal(granule_map_look_up(&map, start), &one);
    assert_ptr_equal(granule_map_look_up(&map, start + 3 * GRANULE_BYTES - 1), &one);
    assert_null(granule_map_look_up(&map, start + 3 * GRANULE_BYTES));
}

static void test_neighbours_keep_their_own(void **state)
{
    (void)state;
    char *start = at(9 * LEAF_REACH);
    granule_map_enter(&map, start, 3 * GRANULE_BYTES, &one);
    granule_map_enter(&map, start + GRANULE_BYTES, GRANULE_BYTES, &two);
    assert_ptr_equal(granule_map_look_up(&map, start), &one);
    assert_ptr_equal(granule_map_look_up(&map, start + GRANULE_BYTES), &two);
    assert_ptr_equal(granule_map_look_up(&map, start + 2 * GRANULE_BYTES), &one);
}

static void test_a_range_may_cross_leaves_and_reach_the_last_address(void **state)
{
    (void)state;
    char *start = at(11 * LEAF_REACH - GRANULE_BYTES);
    assert_true(granule_map_enter(&map, start, 2 * GRANULE_BYTES, &two));
    assert_ptr_equal(granule_map_look_up(&map, start), &two);
    assert_ptr_equal(granule_map_look_up(&map, start + GRANULE_BYTES), &two);
    char *last = at(((uintptr_t)1 << 47) - GRANULE_BYTES);
    assert_true(granule_map_enter(&map, last, GRANULE_BYTES, &one));
    assert_ptr_equal(granule_map_look_up(&map, last + GRANULE_BYTES - 1), &one);
}

static void test_null_forgets_and_makes_no_leaf(void **state)
{
    (void)state;
    char *start = at(13 * LEAF_REACH);
    granule_map_enter(&map, start, 2 * GRANULE_BYTES, &one);
    assert_true(granule_map_enter(&map, start, GRANULE_BYTES, NULL));
    assert_null(granule_map_look_up(&map, start));
    assert_ptr_equal(granule_map_look_up(&map, start + GRANULE_BYTES), &one);
    assert_true(granule_map_enter(&map, at(15 * LEAF_REACH), GRANULE_BYTES, NULL));
    assert_null(map.root[15]);
}

/* A random history against an array of owners. */
static void test_agrees_with_an_array(void **state)
{
    (void)state;
    enum { GRANULES = 300 };
    static void *model[GRANULES];
    char *start = at(21 * LEAF_REACH - GRANULES / 2 * GRANULE_BYTES);
    uint64_t random = 3;
    for (int step = 0; step < 5000; step++) {
        size_t first = random_next(&random) % GRANULES;
        size_t count = random_next(&random) % (GRANULES - first) + 1;
        void *owners_of[] = {NULL, &one, &two}, *owner = owners_of[random_next(&random) % 3];
        assert_true(
            granule_map_enter(&map, start + first * GRANULE_BYTES, count * GRANULE_BYTES, owner));
        for (size_t i = 0; i < count; i++)
            model[first + i] = owner;
        size_t probe = random_next(&random) % GRANULES;
        size_t within = random_next(&random) % GRANULE_BYTES;
        assert_ptr_equal(granule_map_look_up(&map, start + probe * GRANULE_BYTES + within),
                         model[probe]);
    }
}

struct runs {
    size_t count;
    struct {
        char *start;
        size_t bytes;
    } run[8];
};

static void note_run(void *argument, char *start, size_t bytes)
{
    struct runs *runs = argument;
    if (runs->count < 8) {
        runs->run[runs->count].start = start;
        runs->run[runs->count].bytes = bytes;
    }
    runs->count++;
}

static void test_runs_of_all_heaps_are_whole_and_in_order(void **state)
{
    (void)state;
    struct runs runs = {0};
    granule_map_each_run(note_run, &runs);
    assert_int_equal(runs.count, 0);
    char *low = at(5 * LEAF_REACH), *high = at(8 * LEAF_REACH - GRANULE_BYTES);
    granule_map_set(high, 2 * GRANULE_BYTES, &one); /* across two leaves, one run */
    granule_map_set(low, GRANULE_BYTES, &one);
    granule_map_set(low + GRANULE_BYTES, GRANULE_BYTES, &two); /* of two owners, one run */
    granule_map_set(low + 4 * GRANULE_BYTES, GRANULE_BYTES, &two);
    granule_map_each_run(note_run, &runs);
    assert_int_equal(runs.count, 3);
    assert_ptr_equal(runs.run[0].start, low);
    assert_int_equal(runs.run[0].bytes, 2 * GRANULE_BYTES);
    assert_ptr_equal(runs.run[1].start, low + 4 * GRANULE_BYTES);
    assert_int_equal(runs.run[1].bytes, GRANULE_BYTES);
    assert_ptr_equal(runs.run[2].start, high);
    assert_int_equal(runs.run[2].bytes, 2 * GRANULE_BYTES);
}

static size_t touched_bytes(const void *start, size_t bytes)
{
    uintptr_t first = round_down((uintptr_t)start, PAGE_BYTES);
    return pages_resident((void *)first, round_up((uintptr_t)start + bytes, PAGE_BYTES) - first);
}

/* Of the map, the first leaf included: what was read or written. */
static size_t touched_bytes_of_map(void)
{
    return touched_bytes(&owners, sizeof owners) +
           touched_bytes(granule_map_first_leaf,
                         sizeof *granule_map_first_leaf << GRANULE_MAP_LEAF_BITS);
}

static void look_at_small_heaps(void *argument)
{
    struct runs runs = {0};
    (void)argument;
    char *window = at(1000 * LEAF_REACH), *top = at(((uintptr_t)1 << 47) - 200 * GRANULE_BYTES);
    require(granule_map_set(window, 3 * GRANULE_BYTES, &one));
    require(granule_map_set(top, GRANULE_BYTES, &one));
    size_t touched = touched_bytes_of_map();
    require(touched > 0);
    granule_map_each_run(note_run, &runs);
    require(runs.count == 2 && runs.run[0].start == window && runs.run[1].start == top);
    require(touched_bytes_of_map() == touched);
}

/* Statistics look at each new peak. In a process of its own, as the first user of the map. */
static void test_a_look_at_small_heaps_reads_no_empty_part_of_the_map(void **state)
{
    (void)state;
    assert_child_succeeds(look_at_small_heaps, NULL);
}

static void look_at_many_leaves(void *argument)
{
    (void)argument;
    for (uintptr_t leaf = 1; leaf <= 20; leaf++) {
        struct runs runs = {0};
        require(granule_map_set(at(leaf * 100 * LEAF_REACH), GRANULE_BYTES, &one));
        granule_map_each_run(note_run, &runs);
        require(runs.count == leaf && runs.run[0].start == at(100 * LEAF_REACH));
    }
}

/* More than the map notes parts of. */
static void test_heaps_in_any_number_of_leaves_are_visited(void **state)
{
    (void)state;
    assert_child_succeeds(look_at_many_leaves, NULL);
}

enum { THREADS = 4, LEAVES = 64 };

static void *enter_granules(void *argument)
{
    uintptr_t thread = (uintptr_t)argument;
    for (uintptr_t leaf = 0; leaf < LEAVES; leaf++) {
        char *granule = at((1000 + leaf) * LEAF_REACH + thread * GRANULE_BYTES);
        if (!granule_map_enter(&map, granule, GRANULE_BYTES, &one))
            return &one;
    }
    return NULL;
}

/* All want to make the same leaves. */
static void test_threads_share_leaves(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    void *failed;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, enter_granules, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    for (uintptr_t leaf = 0; leaf < LEAVES; leaf++)
        for (uintptr_t i = 0; i <= THREADS; i++) {
            char *granule = at((1000 + leaf) * LEAF_REACH + i * GRANULE_BYTES);
            assert_ptr_equal(granule_map_look_up(&map, granule), i < THREADS ? &one : NULL);
        }
}

static void enter_without_memory(void *argument)
{
    (void)argument;
    limit_address_space(0);
    char *start = at(31 * LEAF_REACH);
    require(!granule_map_enter(&map, start, GRANULE_BYTES, &one));
    require(granule_map_look_up(&map, start) == NULL);
    require(granule_map_enter(&map, start, GRANULE_BYTES, NULL));
}

static void test_no_memory_for_a_leaf_is_said(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(enter_without_memory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_look_at_small_heaps_reads_no_empty_part_of_the_map),
        cmocka_unit_test(test_heaps_in_any_number_of_leaves_are_visited),
        cmocka_unit_test(test_an_empty_map_knows_nothing),
        cmocka_unit_test(test_all_granules_that_a_range_touches_are_entered),
        cmocka_unit_test(test_neighbours_keep_their_own),
        cmocka_unit_test(test_a_range_may_cross_leaves_and_reach_the_last_address),
        cmocka_unit_test(test_null_forgets_and_makes_no_leaf),
        cmocka_unit_test(test_agrees_with_an_array),
        cmocka_unit_test(test_runs_of_all_heaps_are_whole_and_in_order),
        cmocka_unit_test(test_threads_share_leaves),
        cmocka_unit_test(test_no_memory_for_a_leaf_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
