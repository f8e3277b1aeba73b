/* SPDX-License-Identifier: MIT
 *
 * test_trailer.c: a trailer says what it was given, and a changed one is none.
 */
#include "tests/unit/unit.h"

#include <string.h>

#include "alloc/checked/trailer.h"

enum { SLOT_BYTES = 112, SLOTS = 600 };

static _Alignas(16) char slots[SLOTS][SLOT_BYTES];

static uint64_t some_trailer(size_t i)
{
    return i % 2 ? trailer_live(i % 100, (uint32_t)(i * 7919 % 32768), (unsigned)i % 256)
                 : trailer_dead(trailer_live(i % 100, (uint32_t)i, 0), (uint32_t)(i * 31 % 32768));
}

static uint64_t decoded(size_t i)
{
    return trailer_decode(slots[i], trailer_load(slots[i], SLOT_BYTES));
}

static void test_a_trailer_says_what_it_was_given(void **state)
{
    (void)state;
    for (size_t i = 0; i < SLOTS; i++) {
        trailer_store(slots[i], SLOT_BYTES, some_trailer(i));
        assert_true(trailer_is_valid(decoded(i)));
        assert_int_equal(decoded(i), some_trailer(i));
        assert_int_equal(trailer_is_dead(decoded(i)), i % 2 == 0);
        assert_int_equal(trailer_slack(decoded(i)), i % 100);
    }
}

/* Of the byte next to the block and of the one next to the following block: every change. */
static void test_a_change_next_to_a_block_is_seen(void **state)
{
    (void)state;
    for (size_t i = 0; i < SLOTS; i++)
        for (size_t byte = 0; byte < TRAILER_BYTES; byte += TRAILER_BYTES - 1)
            for (int change = 1; change < 256; change++) {
                trailer_store(slots[i], SLOT_BYTES, some_trailer(i));
                slots[i][SLOT_BYTES - TRAILER_BYTES + byte] ^= (char)change;
                assert_false(trailer_is_valid(decoded(i)));
            }
}

static void test_neither_text_nor_zero_is_a_first_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < SLOTS; i++) {
        trailer_store(slots[i], SLOT_BYTES, some_trailer(i));
        assert_true((slots[i][SLOT_BYTES - TRAILER_BYTES] & 0x80) != 0);
    }
}

/* A word of text in place of one: 2^-16 of them pass. Drawn anew each time, because with the same
 * secrets the slots, which lie equally far apart, pass together. */
static void test_a_trailer_elsewhere_is_none(void **state)
{
    (void)state;
    size_t passed = 0;
    for (size_t i = 1; i < SLOTS; i++) {
        trailer_init();
        trailer_store(slots[0], SLOT_BYTES, some_trailer(i));
        memcpy(slots[i] + SLOT_BYTES - TRAILER_BYTES, slots[0] + SLOT_BYTES - TRAILER_BYTES,
               TRAILER_BYTES);
        passed += trailer_is_valid(decoded(i));
    }
    assert_true(passed <= 5);
}

static int draw(void **state)
{
    (void)state;
    trailer_init();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_trailer_says_what_it_was_given),
        cmocka_unit_test(test_a_change_next_to_a_block_is_seen),
        cmocka_unit_test(test_neither_text_nor_zero_is_a_first_byte),
        cmocka_unit_test(test_a_trailer_elsewhere_is_none),
    };
    return cmocka_run_group_tests(tests, draw, NULL);
}
