/* SPDX-License-Identifier: MIT
 *
 * test_handled.c: what a handler's return does to the registers that it returns to, by what they
 * are.
 */
#include "gc/world/handled.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm/kernel_action.h"

enum { BEHIND = 0x401002, FLAGS = 0x246, CALL = SYS_ppoll };

/* As `syscall` leaves them. */
static ucontext_t behind_call(void)
{
    ucontext_t context;
    memset(&context, 0, sizeof context);
    greg_t *registers = context.uc_mcontext.gregs;
    registers[REG_RIP] = registers[REG_RCX] = BEHIND;
    registers[REG_EFL] = registers[REG_R11] = FLAGS;
    registers[REG_RAX] = -EINTR;
    return context;
}

static ucontext_t set_back_as(enum set_back as)
{
    ucontext_t context = behind_call();
    greg_t *registers = context.uc_mcontext.gregs;
    registers[REG_RIP] -= 2;
    registers[REG_RAX] = CALL;
    if (as != SET_BACK_BY_KERNEL)
        mark_set_back(registers, as);
    return context;
}

static void test_who_has_ended_a_call_is_handled_after_a_handler(void **state)
{
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        ucontext_t context = behind_call();
        greg_t *registers = context.uc_mcontext.gregs;
        assert_false(was_handled(registers));
        note_handled(&context, restarts);
        assert_true(was_handled(registers));
        note_handled(&context, restarts);
        assert_true(was_handled(registers));
        assert_int_equal(registers[REG_RAX], -EINTR);
        assert_int_equal(registers[REG_RIP], BEHIND);
    }
}

static void test_who_has_set_a_call_back_is_told(void **state)
{
    (void)state;
    for (enum set_back as = SET_BACK_BY_STOP; as <= SET_BACK_FOR_STOP; as++) {
        ucontext_t context = set_back_as(as);
        assert_int_equal(set_back(context.uc_mcontext.gregs), as);
        assert_false(was_handled(context.uc_mcontext.gregs));
    }
    ucontext_t context = behind_call();
    assert_int_equal(set_back(context.uc_mcontext.gregs), NOT_SET_BACK);
    end_call(context.uc_mcontext.gregs);
    assert_int_equal(set_back(context.uc_mcontext.gregs), NOT_SET_BACK);
}

static void test_a_call_that_was_set_back_ends_with_the_handlers_that_end_it(void **state)
{
    (void)state;
    static const struct {
        enum set_back as;
        bool restarts, ends;
    } cases[] = {
        {SET_BACK_BY_STOP, false, true},    {SET_BACK_BY_STOP, true, true},
        {SET_BACK_FOR_STOP, false, true},   {SET_BACK_FOR_STOP, true, false},
        {SET_BACK_BY_KERNEL, false, false}, {SET_BACK_BY_KERNEL, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ucontext_t context = set_back_as(cases[i].as), before = context;
        const greg_t *registers = context.uc_mcontext.gregs;
        note_handled(&context, cases[i].restarts);
        if (!cases[i].ends) {
            assert_memory_equal(&context, &before, sizeof context);
            continue;
        }
        assert_true(was_handled(registers));
        assert_int_equal(registers[REG_RAX], -EINTR);
        assert_int_equal(registers[REG_RIP], BEHIND);
    }
}

/* rcx and r11 are as the call before has left them, at the same instruction. */
static void test_a_call_that_is_made_again_was_not_set_back(void **state)
{
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        ucontext_t context = behind_call(), before;
        greg_t *registers = context.uc_mcontext.gregs;
        note_handled(&context, restarts);
        registers[REG_RIP] -= 2;
        registers[REG_RAX] = CALL;
        before = context;
        assert_int_equal(set_back(registers), NOT_SET_BACK);
        note_handled(&context, restarts);
        assert_memory_equal(&context, &before, sizeof context);
    }
}

/* A processor may leave rcx and r11 as a stop has set them. */
static void test_a_call_that_was_set_back_and_ends_was_not_handled(void **state)
{
    (void)state;
    const enum set_back by[] = {SET_BACK_BY_STOP, SET_BACK_FOR_STOP};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        ucontext_t context = set_back_as(by[i]);
        context.uc_mcontext.gregs[REG_RIP] += 2;
        assert_false(was_handled(context.uc_mcontext.gregs));
    }
}

static void test_other_registers_are_left_alone(void **state)
{
    (void)state;
    static const int changed[] = {REG_RIP, REG_RCX, REG_R11, REG_EFL};
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++)
        for (enum set_back as = NOT_SET_BACK; as <= SET_BACK_FOR_STOP; as++) {
            ucontext_t context = as ? set_back_as(as) : behind_call(), before;
            context.uc_mcontext.gregs[changed[i]] += 16;
            before = context;
            note_handled(&context, false);
            assert_memory_equal(&context, &before, sizeof context);
        }
}

static void test_the_last_to_end_a_wait_is_told(void **state)
{
    (void)state;
    ucontext_t context = behind_call();
    uint32_t before = last_ended_wait();
    note_ended_wait();
    uint32_t stopped = last_ended_wait();
    assert_true(stopped != before && stopped % 2 == 1);
    note_ended_wait();
    assert_true(last_ended_wait() != stopped && last_ended_wait() % 2 == 1);
    note_handled(&context, true);
    assert_int_equal(last_ended_wait() % 2, 0);
}

/* The kernel and the processor do as is said of them. */

static greg_t seen[3];

static void look(int signal, siginfo_t *info, void *interrupted)
{
    (void)signal, (void)info;
    const ucontext_t *context = interrupted;
    seen[0] = context->uc_mcontext.gregs[REG_RIP];
    seen[1] = context->uc_mcontext.gregs[REG_RCX];
    seen[2] = context->uc_mcontext.gregs[REG_R11] ^ context->uc_mcontext.gregs[REG_EFL];
}

/* tgkill() to oneself; returns r11 ^ flags behind the call. */
static long raise_and_look(void)
{
    long flags, r11, result = SYS_tgkill;
    __asm__ volatile("syscall\n\tpushfq\n\tpopq %[flags]\n\tmovq %%r11, %[r11]"
                     : "+a"(result), [flags] "=&r"(flags), [r11] "=&r"(r11)
                     : "D"(getpid()), "S"(gettid()), "d"(SIGUSR1)
                     : "rcx", "r11", "memory", "cc");
    assert_int_equal(result, 0);
    return r11 ^ flags;
}

static void test_a_call_is_marked_by_the_handler_that_interrupts_it(void **state)
{
    (void)state;
    void (*const restorers[])(void) = {restore_from_ending, restore_from_restarting};
    for (size_t i = 0; i < sizeof restorers / sizeof *restorers; i++) {
        struct kernel_action action = {look, SA_SIGINFO | KERNEL_RESTORER, restorers[i], 0};
        assert_int_equal(kernel_set_action(SIGUSR1, &action, NULL), 0);
        long marked = raise_and_look();
        if (seen[0] != seen[1])
            skip(); /* a processor that keeps rcx */
        assert_int_equal(seen[2], 0);
        assert_int_equal(marked, -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_has_ended_a_call_is_handled_after_a_handler),
        cmocka_unit_test(test_who_has_set_a_call_back_is_told),
        cmocka_unit_test(test_a_call_that_was_set_back_ends_with_the_handlers_that_end_it),
        cmocka_unit_test(test_a_call_that_is_made_again_was_not_set_back),
        cmocka_unit_test(test_a_call_that_was_set_back_and_ends_was_not_handled),
        cmocka_unit_test(test_other_registers_are_left_alone),
        cmocka_unit_test(test_the_last_to_end_a_wait_is_told),
        cmocka_unit_test(test_a_call_is_marked_by_the_handler_that_interrupts_it),
    };
    return cmocka_run_group_tests_name("handled", tests, NULL, NULL);
}
