/* SPDX-License-Identifier: MIT
 *
 * test_stack_trace.c: the trace above a frame, by each of the ways it is found.
 */
#include "shim/observers/stack_trace.h"

#include <execinfo.h>
#include <string.h>

#include "tests/unit/unit.h"

enum { ROOM = 32 };

struct trace {
    const void *frames[MOST_FRAMES];
    uint32_t offsets[MOST_FRAMES], depth;
    void *expected[ROOM];
    int expected_depth;
    const uintptr_t *stack; /* of the function that took it */
    const void *return_address;
};

/* Traces the stack above this function, which stands for our malloc. */
static __attribute__((noinline)) void take(struct trace *trace, uint32_t most)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    trace->stack = frame + 2;
    trace->return_address = (const void *)frame[1];
    trace->depth = stack_trace(frame, trace->frames, trace->offsets, most);
    int count = backtrace(trace->expected, ROOM), own = 0;
    while (own < count && trace->expected[own] != trace->return_address)
        own++; /* this function, and a sanitizer's */
    trace->expected_depth = count - own;
    memmove(trace->expected, trace->expected + own, (size_t)(count - own) * sizeof(void *));
}

/* Before anything else: the order of the tests matters. */
static void test_before_main_only_the_return_address_is_known(void **state)
{
    (void)state;
    struct trace trace;
    take(&trace, MOST_FRAMES);
    assert_false(stack_trace_is_deep());
    assert_int_equal(trace.depth, 1);
    assert_int_equal(trace.offsets[0], 0);
    assert_ptr_equal(trace.frames[0], trace.return_address);
    stack_trace_prepare();
    assert_true(stack_trace_is_deep());
}

static void test_a_trace_is_libcs_with_offsets(void **state)
{
    (void)state;
    struct trace trace;
    take(&trace, MOST_FRAMES);
    assert_int_equal(trace.depth, trace.expected_depth);
    assert_int_equal(trace.offsets[0], trace.depth);
    for (uint32_t i = 0; i < trace.depth; i++)
        assert_ptr_equal(trace.frames[i], trace.expected[i]);
    for (uint32_t i = 1; i < trace.depth; i++) {
        const char *slot = (const char *)trace.stack + trace.offsets[i];
        const void *word;
        memcpy(&word, slot, sizeof word);
        assert_ptr_equal(word, trace.frames[i]);
    }
}

static void test_a_trace_is_cut_to_the_room(void **state)
{
    (void)state;
    struct trace trace;
    take(&trace, 2);
    assert_int_equal(trace.depth, 2);
    take(&trace, 1);
    assert_int_equal(trace.depth, 1);
    assert_int_equal(trace.offsets[0], 0);
}

/* A return address in code that no table describes, as of a just-in-time compiler: libgcc does not
 * find it on the stack either. */
static void test_code_without_tables_is_a_trace_of_one(void **state)
{
    (void)state;
    static uintptr_t code[8];
    uintptr_t stack[4] = {0, (uintptr_t)code, 0, 0};
    const void *frames[MOST_FRAMES];
    uint32_t offsets[MOST_FRAMES] = {1};
    assert_int_equal(stack_trace(stack, frames, offsets, MOST_FRAMES), 1);
    assert_ptr_equal(frames[0], code);
    assert_int_equal(offsets[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_main_only_the_return_address_is_known),
        cmocka_unit_test(test_a_trace_is_libcs_with_offsets),
        cmocka_unit_test(test_a_trace_is_cut_to_the_room),
        cmocka_unit_test(test_code_without_tables_is_a_trace_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
