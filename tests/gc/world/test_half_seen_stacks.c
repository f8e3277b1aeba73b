/* SPDX-License-Identifier: MIT
 *
 * test_half_seen_stacks.c: which mappings hold words of a stack that no collection has seen.
 */
#include "gc/world/half_seen_stacks.h"

#include "tests/unit/unit.h"

enum { STEP = 0x1000 };

/* A collection that visits `count` mappings of two steps, two steps apart, of which it sees a part
 * where `partly` has a bit. Returns the bits of those of which it or an earlier one does. */
static uint64_t collect_mappings(unsigned count, uint64_t partly, bool is_complete)
{
    uint64_t noted = 0;
    half_seen_begin();
    for (unsigned i = 0; i < count; i++) {
        uintptr_t start = (uintptr_t)(4 * i + 1) * STEP;
        bool now = (partly >> i & 1) != 0;
        noted |= (uint64_t)half_seen_note(start, start + 2 * STEP, now) << i;
    }
    half_seen_end(is_complete);
    return noted;
}

static bool note_one(uintptr_t start, uintptr_t end)
{
    half_seen_begin();
    bool noted = half_seen_note(start, end, false);
    half_seen_end(true);
    return noted;
}

static void forget_all(void)
{
    half_seen_begin();
    half_seen_end(true);
}

static void test_a_stack_stays_half_seen_while_its_mapping_does(void **state)
{
    (void)state;
    assert_int_equal(collect_mappings(8, 0x24, true), 0x24);
    assert_int_equal(collect_mappings(8, 0x02, true), 0x26);
    assert_int_equal(collect_mappings(8, 0, true), 0x26);
    assert_int_equal(collect_mappings(2, 0, true), 0x02); /* the others are unmapped */
    assert_int_equal(collect_mappings(8, 0, true), 0x02); /* and made anew */
    forget_all();
    assert_int_equal(collect_mappings(8, 0, true), 0);
}

static void test_a_mapping_that_holds_a_part_of_one_is_half_seen_too(void **state)
{
    (void)state;
    static const struct {
        uintptr_t start, end;
        bool noted;
    } cases[] = {
        {4 * STEP, 5 * STEP, false}, {4 * STEP, 6 * STEP, true},  {5 * STEP, 6 * STEP, true},
        {6 * STEP, 7 * STEP, true},  {7 * STEP, 8 * STEP, false}, {0, 100 * STEP, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        forget_all();
        collect_mappings(2, 0x02, true); /* from 5 to 7 */
        assert_int_equal(note_one(cases[i].start, cases[i].end), cases[i].noted);
    }
    forget_all();
}

static void test_a_collection_that_was_given_up_changes_nothing(void **state)
{
    (void)state;
    collect_mappings(8, 0x11, true);
    assert_int_equal(collect_mappings(1, 0x01, false), 0x01); /* it has not come to the others */
    assert_int_equal(collect_mappings(8, 0x80, false), 0x91);
    assert_int_equal(collect_mappings(8, 0, true), 0x11);
    forget_all();
}

/* More than are kept: from then on all mappings count. In a process of its own, for it is so for
 * good. */
static void note_too_many(void *unused)
{
    (void)unused;
    half_seen_begin();
    for (uintptr_t i = 1; i <= 16385; i++)
        require(half_seen_note(2 * i * STEP, (2 * i + 1) * STEP, true));
    half_seen_end(true);
    require(collect_mappings(8, 0, true) == 0xFF);
    forget_all();
    require(collect_mappings(8, 0, true) == 0xFF);
}

static void test_of_too_many_none_is_taken_for_seen(void **state)
{
    (void)state;
    assert_child_succeeds(note_too_many, NULL);
}

static int start(void **state)
{
    (void)state;
    return half_seen_init() ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stack_stays_half_seen_while_its_mapping_does),
        cmocka_unit_test(test_a_mapping_that_holds_a_part_of_one_is_half_seen_too),
        cmocka_unit_test(test_a_collection_that_was_given_up_changes_nothing),
        cmocka_unit_test(test_of_too_many_none_is_taken_for_seen),
    };
    return cmocka_run_group_tests_name("half-seen stacks", tests, start, NULL);
}
