/* SPDX-License-Identifier: MIT
 *
 * test_range_map.c: random ranges against an array that has an entry for each address.
 */
#include "trace/base/range_map.h"

#include "bench_programs/random.h"
#include "tests/unit/unit.h"

enum { ADDRESSES = 64, CHANGES = 20000 };

static void assert_is_as(const struct range_map *map, const size_t *expected)
{
    for (uint64_t address = 0; address < ADDRESSES; address++) {
        const struct range *range = range_map_find(map, address);
        assert_int_equal(range ? range->what : 0, expected[address]);
        assert_true(!range || (range->start <= address && address < range->end));
    }
    for (size_t i = 0; i < map->count; i++) {
        assert_true(map->ranges[i].start < map->ranges[i].end);
        assert_true(i == 0 || map->ranges[i - 1].end <= map->ranges[i].start);
    }
}

static void test_says_what_was_put_last(void **state)
{
    (void)state;
    struct range_map map = {0};
    size_t expected[ADDRESSES] = {0};
    uint64_t random = 1;
    for (size_t change = 1; change <= CHANGES; change++) {
        uint64_t start = random_below(&random, ADDRESSES);
        uint64_t end = start + random_below(&random, ADDRESSES - start + 1);
        bool put = random_below(&random, 2) == 0;
        assert_true(put ? range_map_put(&map, start, end, change)
                        : range_map_cut(&map, start, end));
        for (uint64_t address = start; address < end; address++)
            expected[address] = put ? change : 0;
        assert_is_as(&map, expected);
    }
    range_map_free(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_what_was_put_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
