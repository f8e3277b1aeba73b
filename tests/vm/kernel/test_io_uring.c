/* SPDX-License-Identifier: MIT
 *
 * test_io_uring.c: what a ring's fdinfo says, read in pieces of any length.
 */
#include "tests/unit/unit.h"

#include <string.h>

/* Included, not linked: few kernels let a test make rings. */
#include "vm/kernel/io_uring.c"

static const char TEXT[] = "pos:\t0\n"
                           "flags:\t02000002\n"
                           "SqMask:\t0x7\n"
                           "SQEs:\t1\n"
                           "    0: 0x1111, user_data:17\n"
                           "UserFiles:\t1\n"
                           "    0: 0x2222/named\n"
                           "UserBufs:\t3\n"
                           "    0: 0x5624461042b0/8192\n"
                           "    1: <none>\n"
                           "    2: 0x562446106000/4096\n"
                           "PollList:\n"
                           "  op=6, task_works=0, 0: 0x3333\n";

static uintptr_t addresses[8];
static size_t count;

static void note(uintptr_t address)
{
    assert_true(count < 8);
    addresses[count++] = address;
}

static bool read_in_pieces_of(size_t piece, const char *text)
{
    char memory[256];
    struct reading reading = {.memory = memory, .bytes = sizeof memory, .visit = note};
    size_t length = 0;
    count = 0;
    for (const char *at = text, *end = text + strlen(text); at < end; at += piece) {
        size_t bytes = (size_t)(end - at) < piece ? (size_t)(end - at) : piece;
        memcpy(memory + length, at, bytes);
        length += bytes;
        size_t done = read_lines(&reading, length);
        length -= done;
        memmove(memory, memory + done, length);
    }
    assert_int_equal(length, 0);
    return reading.any_list;
}

static void test_buffers_and_nothing_else_are_found_however_lines_are_cut(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < 150; piece++) {
        assert_true(read_in_pieces_of(piece, TEXT));
        assert_int_equal(count, 2);
        assert_int_equal(addresses[0], 0x5624461042b0);
        assert_int_equal(addresses[1], 0x562446106000);
    }
}

static void test_a_ring_without_buffers_lists_none(void **state)
{
    (void)state;
    assert_true(read_in_pieces_of(20, "SqMask:\t0x7\nUserBufs:\t0\nPollList:\n"));
    assert_int_equal(count, 0);
}

static void test_a_ring_that_is_busy_has_not_told(void **state)
{
    (void)state;
    assert_false(read_in_pieces_of(20, "pos:\t0\nSqMask:\t0x7\n"));
    assert_int_equal(count, 0);
}

/* The command line has no newline, as a line that is cut off. */
static void test_a_line_without_an_end_has_not_been_read(void **state)
{
    (void)state;
    char memory[4096];
    struct reading reading = {.memory = memory, .bytes = sizeof memory, .visit = note};
    assert_true(process_open());
    assert_true(read_ring(&reading, "comm"));
    assert_false(read_ring(&reading, "cmdline"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffers_and_nothing_else_are_found_however_lines_are_cut),
        cmocka_unit_test(test_a_ring_without_buffers_lists_none),
        cmocka_unit_test(test_a_ring_that_is_busy_has_not_told),
        cmocka_unit_test(test_a_line_without_an_end_has_not_been_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
