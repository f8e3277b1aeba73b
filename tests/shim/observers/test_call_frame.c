/* SPDX-License-Identifier: MIT
 *
 * test_call_frame.c: programs of call frame instructions, by hand, and the rows that they give.
 */
#include "shim/observers/call_frame.h"

#include "tests/unit/unit.h"

/* The CIE that gcc writes: CFA = rsp + 8, the return address at CFA - 8. */
static const uint8_t usual_start[] = {0x0C, 7, 8, 0x80 | 16, 1};

#define BYTES(...) ((const uint8_t[]){__VA_ARGS__}), sizeof((const uint8_t[]){__VA_ARGS__})

static bool row_at(uint64_t distance, const uint8_t *instructions, size_t count,
                   struct call_frame_row *row)
{
    const struct fde fde = {
        .cie = {.code_alignment_factor = 1,
                .data_alignment_factor = -8,
                .initial_instructions = {usual_start, usual_start + sizeof usual_start, false}},
        .pc_begin = 0x1000,
        .pc_range = 0x1000,
        .instructions = {instructions, instructions + count, false}};
    return call_frame_row(&fde, 0x1000 + distance, row);
}

static void assert_row(uint64_t distance, const uint8_t *instructions, size_t count,
                       struct call_frame_row expected)
{
    struct call_frame_row row;
    assert_true(row_at(distance, instructions, count, &row));
    assert_int_equal(row.cfa_register, expected.cfa_register);
    assert_int_equal(row.cfa_offset, expected.cfa_offset);
    assert_int_equal(row.cfa_is_indirect, expected.cfa_is_indirect);
    assert_int_equal(row.rbp_is_saved_at_rbp, expected.rbp_is_saved_at_rbp);
    assert_int_equal(row.rbp_offset, expected.rbp_offset);
    assert_int_equal(row.return_offset, expected.return_offset);
}

static void assert_refused(const uint8_t *instructions, size_t count)
{
    struct call_frame_row row;
    assert_false(row_at(0x800, instructions, count, &row));
}

#define ROW(...) ((struct call_frame_row){.return_offset = -8, __VA_ARGS__})

/* push rbp; mov rbp, rsp; ...; leave; ret */
#define FRAME_POINTER_FUNCTION                                              \
    0x41, 0x0E, 16, 0x80 | 6, 2,  /* +1: CFA = rsp + 16, rbp at CFA - 16 */ \
        0x43, 0x0D, 6,            /* +4: CFA = rbp + 16 */                  \
        0x02, 0x20, 0x0C, 7, 8, 0 /* +0x24: CFA = rsp + 8 */

static void test_each_address_has_its_row(void **state)
{
    (void)state;
    assert_row(0, BYTES(FRAME_POINTER_FUNCTION), ROW(.cfa_register = 7, .cfa_offset = 8));
    assert_row(1, BYTES(FRAME_POINTER_FUNCTION),
               ROW(.cfa_register = 7, .cfa_offset = 16, .rbp_offset = -16));
    assert_row(3, BYTES(FRAME_POINTER_FUNCTION),
               ROW(.cfa_register = 7, .cfa_offset = 16, .rbp_offset = -16));
    assert_row(4, BYTES(FRAME_POINTER_FUNCTION),
               ROW(.cfa_register = 6, .cfa_offset = 16, .rbp_offset = -16));
    assert_row(0x23, BYTES(FRAME_POINTER_FUNCTION),
               ROW(.cfa_register = 6, .cfa_offset = 16, .rbp_offset = -16));
    assert_row(0x24, BYTES(FRAME_POINTER_FUNCTION),
               ROW(.cfa_register = 7, .cfa_offset = 8, .rbp_offset = -16));
}

static void test_locations_advance_by_each_form(void **state)
{
    (void)state;
    assert_row(0x80FF, BYTES(0x03, 0x00, 0x81, 0x0E, 16), ROW(.cfa_register = 7, .cfa_offset = 8));
    assert_row(0x8100, BYTES(0x03, 0x00, 0x81, 0x0E, 16), ROW(.cfa_register = 7, .cfa_offset = 16));
    assert_row(0x20000, BYTES(0x04, 0, 0, 2, 0, 0x0E, 16),
               ROW(.cfa_register = 7, .cfa_offset = 16));
}

static void test_large_and_signed_offsets(void **state)
{
    (void)state;
    assert_row(0, BYTES(0x0E, 0xE5, 0x8E, 0x26), ROW(.cfa_register = 7, .cfa_offset = 624485));
    assert_row(0, BYTES(0x12, 6, 0x7E, 0x11, 6, 3),
               ROW(.cfa_register = 6, .cfa_offset = 16, .rbp_offset = -24));
    assert_row(0, BYTES(0x13, 0x7D, 0x05, 6, 2),
               ROW(.cfa_register = 7, .cfa_offset = 24, .rbp_offset = -16));
}

static void test_remembered_states_nest(void **state)
{
    (void)state;
    const uint8_t program[] = {0x0E, 16,   0x0A, 0x86, 2,    0x0E, 24,
                               0x0A, 0x0E, 32,   0x41, 0x0B, 0x41, 0x0B};
    assert_row(0, program, sizeof program,
               ROW(.cfa_register = 7, .cfa_offset = 32, .rbp_offset = -16));
    assert_row(1, program, sizeof program,
               ROW(.cfa_register = 7, .cfa_offset = 24, .rbp_offset = -16));
    assert_row(2, program, sizeof program, ROW(.cfa_register = 7, .cfa_offset = 16));
    assert_refused(BYTES(0x0B));
    assert_refused(BYTES(0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A));
}

static void test_rules_are_restored_from_the_cie(void **state)
{
    (void)state;
    assert_row(0, BYTES(0x86, 2, 0xC6), ROW(.cfa_register = 7, .cfa_offset = 8));
    assert_row(0, BYTES(0x86, 2, 0x06, 6), ROW(.cfa_register = 7, .cfa_offset = 8));
    assert_row(0, BYTES(0x86, 2, 0x08, 6), ROW(.cfa_register = 7, .cfa_offset = 8));
    assert_row(0, BYTES(0x07, 16, 0xD0), ROW(.cfa_register = 7, .cfa_offset = 8));
}

static void test_an_undefined_return_address_is_the_outermost_frame(void **state)
{
    (void)state;
    struct call_frame_row row;
    assert_true(row_at(0, BYTES(0x07, 16), &row));
    assert_int_equal(row.return_offset, 0);
}

/* What gcc writes for a function that aligns its stack: the CFA is the word at rbp - 8, the saved
 * rbp the word at rbp. */
static void test_the_expressions_of_an_aligned_stack(void **state)
{
    (void)state;
    assert_row(0, BYTES(0x10, 6, 2, 0x76, 0, 0x0F, 3, 0x76, 0x78, 0x06),
               ROW(.cfa_register = 6, .cfa_offset = -8, .cfa_is_indirect = true,
                   .rbp_is_saved_at_rbp = true));
    assert_refused(BYTES(0x10, 6, 2, 0x76, 8));          /* the word at rbp + 8 */
    assert_refused(BYTES(0x10, 6, 2, 0x77, 0));          /* the word at rsp */
    assert_refused(BYTES(0x10, 16, 2, 0x76, 0));         /* of the return address */
    assert_refused(BYTES(0x0F, 3, 0x77, 8, 0x06));       /* from rsp */
    assert_refused(BYTES(0x0F, 2, 0x76, 0x78));          /* not indirect */
    assert_refused(BYTES(0x0F, 4, 0x76, 0x78, 0x06, 0)); /* goes on */
}

static void test_other_registers_are_read_over(void **state)
{
    (void)state;
    assert_row(0, BYTES(0x83, 5, 0x09, 3, 12, 0x16, 12, 2, 0x77, 8, 0x10, 3, 1, 0x06, 0x2E, 16),
               ROW(.cfa_register = 7, .cfa_offset = 8));
}

static void test_what_a_row_cannot_say_is_refused(void **state)
{
    (void)state;
    assert_refused(BYTES(0x09, 6, 3));           /* rbp in rbx */
    assert_refused(BYTES(0x16, 6, 2, 0x77, 8));  /* rbp computed */
    assert_refused(BYTES(0x16, 16, 2, 0x77, 8)); /* the return address computed */
    assert_refused(BYTES(0x07, 6));              /* rbp lost */
    assert_refused(BYTES(0x86, 0));              /* saved at the CFA itself */
    assert_refused(BYTES(0x3F));                 /* no instruction */
    assert_refused(BYTES(0x01, 0, 0, 0, 0));     /* set_loc, which gcc does not write */
}

static void test_a_program_that_breaks_off_is_refused(void **state)
{
    (void)state;
    assert_refused(BYTES(0x0E));
    assert_refused(BYTES(0x0E, 0x80));
    assert_refused(BYTES(0x04, 0, 0));
    assert_refused(BYTES(0x16, 3, 9, 0x77));
    assert_refused(BYTES(0x0E, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_address_has_its_row),
        cmocka_unit_test(test_locations_advance_by_each_form),
        cmocka_unit_test(test_large_and_signed_offsets),
        cmocka_unit_test(test_remembered_states_nest),
        cmocka_unit_test(test_rules_are_restored_from_the_cie),
        cmocka_unit_test(test_an_undefined_return_address_is_the_outermost_frame),
        cmocka_unit_test(test_the_expressions_of_an_aligned_stack),
        cmocka_unit_test(test_other_registers_are_read_over),
        cmocka_unit_test(test_what_a_row_cannot_say_is_refused),
        cmocka_unit_test(test_a_program_that_breaks_off_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
