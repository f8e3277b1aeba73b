/* SPDX-License-Identifier: MIT
 *
 * test_call_on_stack.c: a call on another stack, and what it leaves on the program's.
 */
#include "tests/unit/unit.h"

#include "gc/world/call_on_stack.h"

enum { STACK_BYTES = 64 << 10, SAVED_REGISTERS = 6 }; /* rbx, rbp and r12 to r15 */

static _Alignas(64) char stack[STACK_BYTES];

static struct {
    int calls;
    void *argument;
    uintptr_t frame, stack_pointer;
    uint64_t saved[SAVED_REGISTERS];
} seen;

static __attribute__((no_sanitize_address)) void look(void *argument, uintptr_t stack_pointer)
{
    seen.calls++;
    seen.argument = argument;
    seen.frame = (uintptr_t)__builtin_frame_address(0);
    seen.stack_pointer = stack_pointer;
    for (int i = 0; i < SAVED_REGISTERS; i++)
        seen.saved[i] = ((const uint64_t *)stack_pointer)[i];
}

static void test_the_function_runs_on_the_other_stack(void **state)
{
    (void)state;
    int argument;
    seen.calls = 0;
    call_on_stack(look, &argument, stack + STACK_BYTES);
    assert_int_equal(seen.calls, 1);
    assert_ptr_equal(seen.argument, &argument);
    assert_in_range(seen.frame, (uintptr_t)stack, (uintptr_t)stack + STACK_BYTES);
    assert_int_equal((seen.frame + 16) % 16, 0); /* as the ABI has it at a call */
    assert_in_range(seen.stack_pointer, (uintptr_t)__builtin_frame_address(0) - 4096,
                    (uintptr_t)__builtin_frame_address(0));
}

static bool is_saved(uint64_t value)
{
    for (int i = 0; i < SAVED_REGISTERS; i++)
        if (seen.saved[i] == value)
            return true;
    return false;
}

/* A collection looks for pointers there. */
static void test_registers_that_a_callee_must_keep_are_on_the_programs_stack(void **state)
{
    (void)state;
    register uint64_t rbx __asm__("rbx") = 0x1111;
    register uint64_t r12 __asm__("r12") = 0x2222;
    register uint64_t r13 __asm__("r13") = 0x3333;
    register uint64_t r14 __asm__("r14") = 0x4444;
    register uint64_t r15 __asm__("r15") = 0x5555;
    __asm__ volatile("" : "+r"(rbx), "+r"(r12), "+r"(r13), "+r"(r14), "+r"(r15));
    call_on_stack(look, NULL, stack + STACK_BYTES);
    __asm__ volatile("" : "+r"(rbx), "+r"(r12), "+r"(r13), "+r"(r14), "+r"(r15));
    uint64_t after[] = {rbx, r12, r13, r14, r15};
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(after[i], 0x1111 * (i + 1));
        assert_true(is_saved(0x1111 * (i + 1)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_function_runs_on_the_other_stack),
        cmocka_unit_test(test_registers_that_a_callee_must_keep_are_on_the_programs_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
