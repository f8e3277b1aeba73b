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

static void write_for_the_parent(void *memory)
{
    *(char *)memory = 1;
}

static void test_shared_memory_is_entered_too_and_a_child_writes_into_it(void **state)
{
    (void)state;
    for (size_t round = 0; round < 4; round++) {
        size_t bytes = 3 * GRANULE_BYTES - round;
        char *apart = pages_map(PAGE_BYTES, PAGE_BYTES); /* for a place that is not aligned */
        char *memory = private_memory_map_shared(bytes);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % GRANULE_BYTES, 0);
        assert_true(is_zero(memory, 3 * GRANULE_BYTES));
        assert_ptr_equal(granule_map_get(memory), &private_memory_owner);
        assert_ptr_equal(granule_map_get(memory + bytes - 1), &private_memory_owner);
        assert_child_succeeds(write_for_the_parent, memory);
        assert_int_equal(*memory, 1);
        private_memory_unmap(memory, bytes);
        assert_null(granule_map_get(memory));
        assert_false(is_readable(memory));
        pages_unmap(apart, PAGE_BYTES);
    }
}

static void note_if_visited(void *memory, char *start, size_t bytes)
{
    require(*(char **)memory < start || *(char **)memory >= start + bytes);
}

static void test_it_is_none_of_the_heaps(void **state)
{
    (void)state;
    char *memory = private_memory_map(GRANULE_BYTES);
    granule_map_each_run(note_if_visited, &memory);
    private_memory_unmap(memory, GRANULE_BYTES);
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
        cmocka_unit_test(test_shared_memory_is_entered_too_and_a_child_writes_into_it),
        cmocka_unit_test(test_it_is_none_of_the_heaps),
        cmocka_unit_test(test_refused_memory_is_said_and_nothing_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
