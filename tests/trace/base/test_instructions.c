/* SPDX-License-Identifier: MIT
 *
 * test_instructions.c: each instruction has one number, whatever comes between.
 */
#include "trace/base/instructions.h"

#include "tests/unit/unit.h"

static void test_a_number_names_its_instruction(void **state)
{
    (void)state;
    enum { ADDRESSES = 20000, FUNCTIONS = 2 };
    struct instructions instructions = {.in_use = true};
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < ADDRESSES * FUNCTIONS; i++) {
            uint64_t address = 0x400000 + i / FUNCTIONS * 3;
            assert_int_equal(instructions_number(&instructions, address, i % FUNCTIONS), i);
        }
    assert_int_equal(instructions.count, ADDRESSES * FUNCTIONS);
    for (uint32_t i = 0; i < ADDRESSES * FUNCTIONS; i++) {
        const struct instruction *found = instructions_find(&instructions, i);
        assert_int_equal(found->address, 0x400000 + i / FUNCTIONS * 3);
        assert_int_equal(found->function, i % FUNCTIONS);
    }
    assert_null(instructions_find(&instructions, ADDRESSES * FUNCTIONS));
    instructions_free(&instructions);
}

static void test_functions_keep_their_numbers_where_no_one_asks_for_instructions(void **state)
{
    (void)state;
    struct instructions instructions = {0};
    assert_int_equal(instructions_number(&instructions, 0x400000, 77), 77);
    assert_null(instructions_find(&instructions, 77));
    instructions_free(&instructions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_number_names_its_instruction),
        cmocka_unit_test(test_functions_keep_their_numbers_where_no_one_asks_for_instructions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
