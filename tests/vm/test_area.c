/* SPDX-License-Identifier: MIT
 *
 * test_area.c: an area in place of sbrk, alone, beside another, and short of memory.
 */
#include "tests/unit/unit.h"

#include <string.h>

#include "vm/area.h"
#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/window.h"

static int owner, other_owner; /* only their addresses are used */

static int make_window(void **state)
{
    (void)state;
    window_init(4);
    return 0;
}

static size_t room(const struct area *area)
{
    return (size_t)(area->limit - area->brk);
}

static void test_a_new_area_has_nothing(void **state)
{
    (void)state;
    struct area area;
    struct segment segment;
    area_init(&area, &owner);
    assert_false(area_segment(&area, 0, &segment));
    assert_false(area_retract(&area, 8));
    assert_int_equal(area.bytes, 0);
}

static void test_alone_it_is_one_segment_that_grows_at_its_end(void **state)
{
    (void)state;
    struct area area;
    struct segment segment;
    area_init(&area, &owner);
    char *start = area_extend(&area, 8), *end = start + 8;
    assert_non_null(start);
    assert_int_equal((uintptr_t)start % GRANULE_BYTES, 0);
    uint64_t random = 1;
    while (area.bytes < (size_t)64 << 20) {
        size_t bytes = 8 * (random_next(&random) % 100000);
        assert_ptr_equal(area_extend(&area, bytes), end);
        end += bytes;
        assert_int_equal(area.bytes, (size_t)(end - start));
    }
    assert_true(area_segment(&area, 0, &segment));
    assert_ptr_equal(segment.start, start);
    assert_ptr_equal(segment.end, end);
    assert_false(area_segment(&area, 1, &segment));
}

static void test_a_request_larger_than_an_extent_is_met(void **state)
{
    (void)state;
    struct area area;
    area_init(&area, &owner);
    char *start = area_extend(&area, (size_t)300 << 20);
    assert_non_null(start);
    start[0] = start[((size_t)300 << 20) - 1] = 1;
    assert_int_equal(*(start + ((size_t)150 << 20)), 0);
}

static void test_page_map_knows_the_owner_of_every_byte(void **state)
{
    (void)state;
    struct area area, other;
    area_init(&area, &owner);
    area_init(&other, &other_owner);
    char *mine = area_extend(&area, 100000), *theirs = area_extend(&other, 100000);
    assert_ptr_equal(granule_map_get(mine), &owner);
    assert_ptr_equal(granule_map_get(mine + 99999), &owner);
    assert_ptr_equal(granule_map_get(theirs), &other_owner);
    assert_ptr_equal(granule_map_get(theirs + 99999), &other_owner);
}

static void test_retract_moves_back_at_most_to_the_base(void **state)
{
    (void)state;
    struct area area;
    area_init(&area, &owner);
    char *start = area_extend(&area, 1000);
    assert_false(area_retract(&area, 1008));
    assert_ptr_equal(area.brk, start + 1000);
    assert_true(area_retract(&area, 600));
    assert_int_equal(area.bytes, 400);
    assert_ptr_equal(area_extend(&area, 8), start + 400);
    assert_true(area_retract(&area, 408));
    assert_int_equal(area.bytes, 0);
    assert_ptr_equal(area_extend(&area, 8), start);
}

static void test_retracted_memory_is_zero_again_by_whole_pages(void **state)
{
    (void)state;
    struct area area;
    area_init(&area, &owner);
    char *start = area_extend(&area, 5 * PAGE_BYTES + 100);
    memset(start, 1, 5 * PAGE_BYTES + 100);
    assert_true(area_retract(&area, 3 * PAGE_BYTES));
    assert_int_equal(pages_resident(start, 6 * PAGE_BYTES), 3 * PAGE_BYTES);
    assert_ptr_equal(area_extend(&area, 3 * PAGE_BYTES), start + 2 * PAGE_BYTES + 100);
    assert_int_equal(start[3 * PAGE_BYTES - 1], 1); /* the rest of a page in use stays */
    assert_true(is_zero(start + 3 * PAGE_BYTES, 3 * PAGE_BYTES));
}

static void test_account_follows_the_break(void **state)
{
    (void)state;
    struct area area;
    area_init(&area, &owner);
    size_t mapped = mapped_bytes(), metadata = metadata_bytes(), areas = heap_account.areas;
    area_extend(&area, 160000);
    assert_int_equal(heap_account.areas - areas, 160000);
    assert_int_equal(metadata_bytes() - metadata, 10000); /* its shadow */
    assert_int_equal(mapped_bytes() - mapped, 170000);
    area_retract(&area, 160000);
    assert_int_equal(mapped_bytes(), mapped);
    assert_int_equal(metadata_bytes(), metadata);
    for (int i = 0; i < 4; i++) /* no whole byte of shadow each */
        area_extend(&area, 40);
    area_retract(&area, 160);
    assert_int_equal(metadata_bytes(), metadata);
}

/* What an area says of itself against what it handed out, in order. */
static void assert_segments(const struct area *area, char *const *starts, const size_t *bytes,
                            size_t count)
{
    struct segment segment;
    size_t index = 0, given = 0;
    assert_true(area_segment(area, index, &segment));
    char *position = segment.start;
    for (size_t i = 0; i < count; i++) {
        if (starts[i] != position) {
            assert_ptr_equal(position, segment.end);
            assert_true(area_segment(area, ++index, &segment));
            position = segment.start;
            assert_ptr_equal(starts[i], position);
        }
        position += bytes[i];
        given += bytes[i];
    }
    assert_ptr_equal(position, segment.end);
    assert_false(area_segment(area, index + 1, &segment));
    assert_int_equal(given, area->bytes);
    assert_true(index > 0);
}

enum { EXTENSIONS = 400 };

static void test_two_areas_that_take_turns_have_segments(void **state)
{
    (void)state;
    static char *starts[2][EXTENSIONS];
    static size_t bytes[2][EXTENSIONS];
    struct area areas[2];
    uint64_t random = 2;
    area_init(&areas[0], &owner);
    area_init(&areas[1], &other_owner);
    for (int i = 0; i < EXTENSIONS; i++)
        for (int which = 0; which < 2; which++) {
            size_t wanted = 8 * (1 + random_next(&random) % 50000);
            char *start = area_extend(&areas[which], wanted);
            assert_non_null(start);
            assert_ptr_equal(granule_map_get(start), which ? &other_owner : &owner);
            assert_true(is_zero(start, wanted));
            memset(start, 1, wanted); /* what is handed out twice is not zero */
            starts[which][i] = start;
            bytes[which][i] = wanted;
        }
    assert_segments(&areas[0], starts[0], bytes[0], EXTENSIONS);
    assert_segments(&areas[1], starts[1], bytes[1], EXTENSIONS);
}

static void test_segments_run_out_without_harm(void **state)
{
    (void)state;
    struct area area, other;
    area_init(&area, &owner);
    area_init(&other, &other_owner);
    area_extend(&area, 8);
    while (area.segment_count < AREA_SEGMENTS) {
        area.bytes = other.bytes = 0; /* so that extents stay small */
        assert_non_null(area_extend(&other, room(&other) + 8));
        assert_non_null(area_extend(&area, room(&area) + 8));
    }
    assert_non_null(area_extend(&other, room(&other) + 8));
    char *brk = area.brk;
    size_t bytes = area.bytes, left = room(&area), used = window_used_bytes();
    assert_null(area_extend(&area, left + 8));
    assert_int_equal(window_used_bytes(), used);
    assert_ptr_equal(area.brk, brk);
    assert_int_equal(area.bytes, bytes);
    assert_ptr_equal(area_extend(&area, left), brk);
}

/* So many that each turn of two areas may begin a segment, and there are enough of them. */
static void test_extents_grow_with_a_very_large_heap(void **state)
{
    (void)state;
    struct area area;
    area_init(&area, &owner);
    assert_non_null(area_extend(&area, 8));
    area.bytes = (size_t)16 << 30;
    size_t used = window_used_bytes();
    assert_non_null(area_extend(&area, room(&area) + 8));
    assert_int_equal(window_used_bytes() - used, (size_t)256 << 20);
}

static void test_impossible_sizes_are_refused(void **state)
{
    (void)state;
    struct area area;
    area_init(&area, &owner);
    char *start = area_extend(&area, 64);
    assert_null(area_extend(&area, SIZE_MAX - 7));
    assert_null(area_extend(&area, WINDOW_BYTES));
    assert_null(area_extend(&area, (size_t)PTRDIFF_MAX + 1));
    assert_int_equal(area.bytes, 64);
    assert_ptr_equal(area_extend(&area, 8), start + 64);
}

static void extend_to_the_limit(void *argument)
{
    (void)argument;
    struct area area;
    area_init(&area, &owner);
    /* Extents of 8 MiB are refused, but there is room for halves of them. */
    require(area_extend(&area, (size_t)64 << 20) != NULL);
    require(area_extend(&area, room(&area)) != NULL);
    limit_address_space((size_t)6 << 20);
    size_t before = area.bytes;
    while (area_extend(&area, 65536))
        ;
    size_t got = area.bytes - before;
    require(got >= (size_t)5 << 20);
    char *brk = area.brk;
    require(!area_extend(&area, (size_t)1 << 20));
    require(area.brk == brk && area.bytes == before + got);
    require(area_retract(&area, 65536));
    require(area_extend(&area, 65536) == brk - 65536);
}

static void test_refused_memory_is_asked_for_by_halves(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(extend_to_the_limit, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_area_has_nothing),
        cmocka_unit_test(test_alone_it_is_one_segment_that_grows_at_its_end),
        cmocka_unit_test(test_a_request_larger_than_an_extent_is_met),
        cmocka_unit_test(test_page_map_knows_the_owner_of_every_byte),
        cmocka_unit_test(test_retract_moves_back_at_most_to_the_base),
        cmocka_unit_test(test_retracted_memory_is_zero_again_by_whole_pages),
        cmocka_unit_test(test_account_follows_the_break),
        cmocka_unit_test(test_two_areas_that_take_turns_have_segments),
        cmocka_unit_test(test_segments_run_out_without_harm),
        cmocka_unit_test(test_extents_grow_with_a_very_large_heap),
        cmocka_unit_test(test_impossible_sizes_are_refused),
        cmocka_unit_test(test_refused_memory_is_asked_for_by_halves),
    };
    return cmocka_run_group_tests(tests, make_window, NULL);
}
