/* SPDX-License-Identifier: MIT
 *
 * Our walk up the stack against libgcc's, through frames of each kind that compilers make.
 */
#include "shim/observers/unwind.h"

#include <alloca.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "tests/unit/unit.h"

enum { MOST = 64 };

static unsigned walks;

struct libgcc_walk {
    void *addresses[MOST + 1];
    int count;
};

static _Unwind_Reason_Code note_address(struct _Unwind_Context *context, void *argument)
{
    struct libgcc_walk *libgcc = argument;
    uintptr_t address = _Unwind_GetIP(context);
    if (address == 0 || libgcc->count > MOST)
        return _URC_END_OF_STACK;
    libgcc->addresses[libgcc->count++] = (void *)address; /* NOLINT(performance-no-int-to-ptr) */
    return _URC_NO_REASON;
}

/* Walks up from whoever called this. Compiled with a frame pointer, as all here. */
static __attribute__((noinline)) void walk(void)
{
    const void *ours[MOST];
    struct libgcc_walk theirs = {0};
    uint32_t offsets[MOST];
    uintptr_t *own = __builtin_frame_address(0);
    struct unwind_frame frame = {.rip = own[1], .rsp = (uintptr_t)(own + 2), .rbp = own[0]};
    bool is_whole = false;
    uint32_t depth = unwind(frame, ours, offsets, MOST, &is_whole);
    _Unwind_Backtrace(note_address, &theirs);
    assert_true(is_whole);
    assert_true(depth > 3);
    assert_int_equal(depth, theirs.count - 1); /* the first is this function */
    assert_memory_equal(ours, theirs.addresses + 1, depth * sizeof *ours);
    for (uint32_t i = 1; i < depth; i++)
        assert_ptr_equal(*(const void *const *)(frame.rsp + offsets[i]), ours[i]);
    assert_int_equal(unwind(frame, ours, NULL, 2, &is_whole), 2);
    assert_true(is_whole);
    walks++;
}

static int compare(const void *left, const void *right)
{
    walk();
    return *(const int *)left - *(const int *)right;
}

static __attribute__((noinline, optimize("omit-frame-pointer"))) int by_stack(int depth)
{
    volatile char room[100];
    memset((char *)room, depth, sizeof room);
    if (depth == 0)
        walk();
    return depth > 0 ? by_stack(depth - 1) + room[depth] : room[0];
}

static __attribute__((noinline)) int by_base(int depth)
{
    volatile char *room = alloca((size_t)depth * 40 + 16);
    room[0] = (char)depth;
    if (depth == 0)
        return by_stack(5) + room[0];
    return by_base(depth - 1) + room[0];
}

/* What is aligned to more than the stack is, and of unknown size besides: the frame is found
 * through what was saved at rbp - 8. */
static __attribute__((noinline)) int by_what_lies_at_base(int depth)
{
    volatile char aligned[64] __attribute__((aligned(64)));
    volatile char *room = alloca((size_t)depth * 24 + 16);
    aligned[0] = room[0] = (char)depth;
    assert_int_equal((uintptr_t)aligned % 64, 0);
    if (depth == 0)
        return by_base(7) + aligned[0];
    return by_what_lies_at_base(depth - 1) + aligned[0] + room[0];
}

static void test_walks_are_libgccs(void **state)
{
    (void)state;
    int numbers[] = {3, 1, 2, 7, 5, 4, 6, 0};
    walk();
    by_stack(10);
    by_base(10);
    by_what_lies_at_base(10);
    qsort(numbers, sizeof numbers / sizeof *numbers, sizeof *numbers, compare);
    assert_true(walks > 10);
}

static void test_an_address_in_no_object_is_left_to_libgcc(void **state)
{
    (void)state;
    uintptr_t words[8] = {0};
    const void *addresses[MOST];
    struct unwind_frame frame = {.rip = (uintptr_t)words, .rsp = (uintptr_t)words};
    bool is_whole = true;
    assert_int_equal(unwind(frame, addresses, NULL, MOST, &is_whole), 0);
    assert_false(is_whole);
}

/* The last address that is wanted needs no step from it. */
static void test_the_last_frame_may_be_of_any_kind(void **state)
{
    (void)state;
    uintptr_t *own = __builtin_frame_address(0);
    const void *address = NULL;
    struct unwind_frame frame = {.rip = own[1], .rsp = (uintptr_t)own + 4, .rbp = 0};
    bool is_whole = false;
    assert_int_equal(unwind(frame, &address, NULL, 1, &is_whole), 1);
    assert_true(is_whole);
    assert_ptr_equal(address, own[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walks_are_libgccs),
        cmocka_unit_test(test_an_address_in_no_object_is_left_to_libgcc),
        cmocka_unit_test(test_the_last_frame_may_be_of_any_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
