/* SPDX-License-Identifier: MIT
 *
 * test_private_memory.c: memory of the collector's own, which the granule map tells apart.
 */
#include "tests/unit/unit.h"

#include "vm/granule_map.h"
#include "vm/owner.h"
#include "vm/pages.h"
#include "vm/private_memory.h"

static void test_it_is_zero_and_entered_to_its_last_granule(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, GRANULE_BYTES, GRANULE_BYTES + 1, 40 * GRANULE_BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = round_up(sizes[i], GRANULE_BYTES);
        char *memory = private_memory_map(sizes[i]);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % GRANULE_BYTES, 0);
        assert_true(is_zero(memory, bytes));
        for (size_t at = 0; at < bytes; at += GRANULE_BYTES / 2) {
            const struct owner *owner = granule_map_get(memory + at);
            assert_non_null(owner);
            assert_int_equal(owner->kind, OWNER_RECORDS);
        }
        private_memory_unmap(memory, sizes[i]);
        for (size_t at = 0; at < bytes; at += GRANULE_BYTES / 2) {
            assert_null(granule_map_get(memory + at));
            assert_false(is_readable(memory + at));
        }
    }
}

static void test_neighbours_are_left_alone(void **state)
{
    (void)state;
    char *three = private_memory_map(3 * GRANULE_BYTES);
    private_memory_unmap(three + GRANULE_BYTES, GRANULE_BYTES);
    three[0] = three[2 * GRANULE_BYTES] = 1;
    assert_non_null(granule_map_get(three));
    assert_non_null(granule_map_get(three + 2 * GRANULE_BYTES));
    private_memory_unmap(three, GRANULE_BYTES);
    private_memory_unmap(three + 2 * GRANULE_BYTES, GRANULE_BYTES);
}

static void ask_for_too_much(void *unused)
{
    (void)unused;
    limit_address_space((size_t)1 << 20);
    size_t mapped = mapped_bytes();
    require(private_memory_map((size_t)64 << 20) == NULL);
    require(mapped_bytes() == mapped);
}

static void test_refused_memory_is_said_and_nothing_stays(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(ask_for_too_much, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_zero_and_entered_to_its_last_granule),
        cmocka_unit_test(test_neighbours_are_left_alone),
        cmocka_unit_test(test_refused_memory_is_said_and_nothing_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
