/* SPDX-License-Identifier: MIT
 *
 * test_eh_frame.c: a table of two functions, by hand, found whole and refused when it is damaged.
 */
#include "shim/observers/eh_frame.h"

#include <sys/mman.h>

#include "tests/unit/unit.h"

enum { CODE_BYTES = 0x100 };

/* The sections and the code that they describe, at the distances that they name. */
struct object {
    /* .eh_frame_hdr */
    uint8_t version, encodings[3];
    int32_t eh_frame;
    uint32_t count;
    struct {
        int32_t function, fde;
    } table[2];
    /* .eh_frame */
    struct {
        uint32_t length, id;
        uint8_t cie_version;
        char augmentation[4];
        uint8_t code_factor, data_factor, return_register;
        uint8_t augmentation_length, lsda_encoding, pointer_encoding;
        uint8_t instructions[5];
    } cie;
    struct {
        uint32_t length, cie_pointer;
        int32_t pc_begin;
        uint32_t pc_range;
        uint8_t augmentation_length, lsda[4], instructions[7];
    } fde[2];
    uint8_t code[CODE_BYTES];
};

static struct object object;

static int32_t distance(const void *from, const void *to)
{
    return (int32_t)((const uint8_t *)to - (const uint8_t *)from);
}

/* Functions at code + 0x10, of 0x20 bytes, and at code + 0x40, of 0x80. */
static void make_object(void)
{
    object = (struct object){
        .version = 1,
        .encodings = {0x1B, 0x03, 0x3B},
        .count = 2,
        .cie = {.length = sizeof object.cie - 4,
                .cie_version = 1,
                .augmentation = "zLR",
                .code_factor = 1,
                .data_factor = 0x78,
                .return_register = 16,
                .augmentation_length = 2,
                .lsda_encoding = 0x1B,
                .pointer_encoding = 0x1B,
                .instructions = {0x0C, 7, 8, 0x90, 1}},
    };
    for (int i = 0; i < 2; i++) {
        const uint8_t *function = object.code + (i == 0 ? 0x10 : 0x40);
        object.table[i].function = distance(&object, function);
        object.table[i].fde = distance(&object, &object.fde[i]);
        object.fde[i].length = sizeof object.fde[i] - 4;
        object.fde[i].cie_pointer = (uint32_t)distance(&object.cie, &object.fde[i].cie_pointer);
        object.fde[i].pc_begin = distance(&object.fde[i].pc_begin, function);
        object.fde[i].pc_range = i == 0 ? 0x20 : 0x80;
        object.fde[i].augmentation_length = 4;
        object.fde[i].instructions[0] = (uint8_t)(0x41 + i);
    }
}

static bool find(size_t at, struct fde *fde)
{
    return fde_find(&object.version, (uintptr_t)(object.code + at), fde);
}

static void test_an_address_finds_its_function(void **state)
{
    (void)state;
    make_object();
    for (size_t at = 0; at < CODE_BYTES; at++) {
        struct fde fde;
        int expected = at >= 0x10 && at < 0x30 ? 0 : at >= 0x40 && at < 0xC0 ? 1 : -1;
        assert_int_equal(find(at, &fde), expected >= 0);
        if (expected < 0)
            continue;
        assert_int_equal(fde.pc_begin, (uintptr_t)(object.code + (expected == 0 ? 0x10 : 0x40)));
        assert_int_equal(fde.pc_range, expected == 0 ? 0x20 : 0x80);
        assert_ptr_equal(fde.instructions.at, object.fde[expected].instructions);
        assert_ptr_equal(fde.instructions.end, &object.fde[expected] + 1);
    }
}

static void test_the_cie_is_read(void **state)
{
    (void)state;
    struct fde fde;
    make_object();
    assert_true(find(0x10, &fde));
    assert_int_equal(fde.cie.code_alignment_factor, 1);
    assert_int_equal(fde.cie.data_alignment_factor, -8);
    assert_int_equal(fde.cie.pointer_encoding, 0x1B);
    assert_true(fde.cie.has_augmentation_data);
    assert_ptr_equal(fde.cie.initial_instructions.at, object.cie.instructions);
    assert_ptr_equal(fde.cie.initial_instructions.end, &object.cie + 1);
}

/* As a C++ program's that is not position-independent. */
static void test_a_personality_may_be_an_address_of_4_bytes(void **state)
{
    (void)state;
    static const uint8_t data[] = {6, 0x03, 1, 2, 3, 4, 0x1B};
    struct fde fde;
    make_object();
    object.cie.augmentation[1] = 'P';
    memcpy(&object.cie.augmentation_length, data, sizeof data);
    assert_true(find(0x50, &fde));
    assert_int_equal(fde.cie.pointer_encoding, 0x1B);
    assert_ptr_equal(fde.cie.initial_instructions.at,
                     &object.cie.augmentation_length + sizeof data);
}

/* As well of such a program: of a function, the address and the length. */
static void test_a_function_may_have_an_address_of_4_bytes(void **state)
{
    (void)state;
    make_object();
    struct object *low = mmap(NULL, sizeof object, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    assert_ptr_not_equal(low, MAP_FAILED);
    *low = object;
    low->cie.pointer_encoding = 0x03;
    low->fde[1].pc_begin = (int32_t)(uintptr_t)(low->code + 0x40);
    struct fde fde;
    assert_true(fde_find(&low->version, (uintptr_t)(low->code + 0xBF), &fde));
    assert_int_equal(fde.pc_begin, (uintptr_t)(low->code + 0x40));
    assert_int_equal(fde.pc_range, 0x80);
    assert_ptr_equal(fde.instructions.at, low->fde[1].instructions);
    assert_false(fde_find(&low->version, (uintptr_t)(low->code + 0xC0), &fde));
    assert_int_equal(munmap(low, sizeof *low), 0);
}

static void test_an_object_without_a_table_has_none(void **state)
{
    (void)state;
    struct fde fde;
    assert_false(fde_find(NULL, (uintptr_t)object.code, &fde));
    make_object();
    object.count = 0;
    assert_false(find(0x10, &fde));
}

#define ASSERT_REFUSED(...)             \
    do {                                \
        struct fde fde;                 \
        make_object();                  \
        __VA_ARGS__;                    \
        assert_false(find(0x50, &fde)); \
    } while (0)

static void test_what_is_damaged_or_unknown_is_refused(void **state)
{
    (void)state;
    ASSERT_REFUSED(object.version = 2);
    ASSERT_REFUSED(object.encodings[2] = 0x3C);
    ASSERT_REFUSED(object.fde[1].length = 0);
    ASSERT_REFUSED(object.fde[1].length = UINT32_MAX);
    ASSERT_REFUSED(object.fde[1].length = 3);
    ASSERT_REFUSED(object.fde[1].cie_pointer = 0);
    ASSERT_REFUSED(object.fde[1].augmentation_length = 200);
    ASSERT_REFUSED(object.cie.id = 1);
    ASSERT_REFUSED(object.cie.cie_version = 4);
    ASSERT_REFUSED(object.cie.augmentation[0] = 'e');
    ASSERT_REFUSED(object.cie.augmentation[1] = 'S'); /* a signal's frame */
    ASSERT_REFUSED(object.cie.augmentation_length = 100);
    ASSERT_REFUSED(object.cie.return_register = 15);
    ASSERT_REFUSED(object.cie.pointer_encoding = 0x2B);
    ASSERT_REFUSED(object.cie.length = 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_address_finds_its_function),
        cmocka_unit_test(test_the_cie_is_read),
        cmocka_unit_test(test_a_personality_may_be_an_address_of_4_bytes),
        cmocka_unit_test(test_a_function_may_have_an_address_of_4_bytes),
        cmocka_unit_test(test_an_object_without_a_table_has_none),
        cmocka_unit_test(test_what_is_damaged_or_unknown_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
