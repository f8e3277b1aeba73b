/* SPDX-License-Identifier: MIT
 *
 * Random ranges against an array that has an entry for each address.
 */
#include "trace/base/range_map.h"

#include "tests/unit/unit.h"

enum { ADDRESSES = 64, CHANGES = 20000 };

static uint64_t random_below(uint64_t limit)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % limit;
}

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
    for (size_t change = 1; change <= CHANGES; change++) {
        uint64_t start = random_below(ADDRESSES), end = start + random_below(ADDRESSES - start + 1);
        bool put = random_below(2) == 0;
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
