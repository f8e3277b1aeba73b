/* SPDX-License-Identifier: MIT
 *
 * test_interrupted_waits.c: how a call goes on that had not begun again as a stop came: by what has
 * set the thread back to it, by what the handler of a pending signal is, and by what handlers
 * return before the call begins.
 */
#include "gc/world/interrupted_waits.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gc/world/handled.h"
#include "vm/kernel_action.h"

enum { SIGNAL = SIGUSR1, FLAGS = 0x246, PENDING_NONE = -1 };

/* A system call, and how far before it one looks for its number. */
enum { BEFORE = 32, AT_CALL = BEFORE, BEHIND_CALL = BEFORE + 2 };
static const unsigned char code[2 * BEFORE] = {[AT_CALL] = 0x0F, 0x05};

static greg_t at(greg_t offset)
{
    return (greg_t)(uintptr_t)code + offset;
}

/* As the kernel sets a thread back to a call, with its arguments. */
static ucontext_t set_back_to(long call, long second, long third)
{
    ucontext_t context;
    memset(&context, 0, sizeof context);
    greg_t *registers = context.uc_mcontext.gregs;
    registers[REG_RIP] = at(AT_CALL);
    registers[REG_RCX] = at(BEHIND_CALL);
    registers[REG_EFL] = registers[REG_R11] = FLAGS;
    registers[REG_RAX] = call;
    registers[REG_RSI] = second;
    registers[REG_RDX] = third;
    return context;
}

static ucontext_t set_back_to_read(void)
{
    return set_back_to(SYS_read, 0, 1);
}

static ucontext_t set_back_by_stop(void)
{
    ucontext_t context = set_back_to(SYS_poll, 0, -1);
    mark_set_back(context.uc_mcontext.gregs, SET_BACK_BY_STOP);
    return context;
}

static void handle(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
}

/* A stop of a thread that has these registers. pending: the flags of the handler of a signal that
 * waits for the thread; or PENDING_NONE. restorer: of the handler. */
static void stop_with_handler(ucontext_t *context, int pending, void (*restorer)(void))
{
    struct kernel_action action = {handle, KERNEL_RESTORER | (unsigned)(pending & SA_RESTART),
                                   restorer, 0};
    uint64_t mask = UINT64_C(1) << (SIGNAL - 1), before;
    assert_int_equal(kernel_set_action(SIGNAL, &action, NULL), 0);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, &before, sizeof mask);
    if (pending != PENDING_NONE)
        syscall(SYS_tgkill, getpid(), gettid(), SIGNAL);
    struct interrupted_wait wait = interrupt_wait(context);
    continue_wait(&wait, context);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

/* The handler was installed past the shim. */
static void stop_with(ucontext_t *context, int pending)
{
    stop_with_handler(context, pending, restore_from_signal);
}

static void assert_begins_again(const ucontext_t *context, long call)
{
    assert_int_equal(context->uc_mcontext.gregs[REG_RIP], at(AT_CALL));
    assert_int_equal(context->uc_mcontext.gregs[REG_RAX], call);
}

static void assert_ended(const ucontext_t *context)
{
    assert_int_equal(context->uc_mcontext.gregs[REG_RIP], at(BEHIND_CALL));
    assert_int_equal(context->uc_mcontext.gregs[REG_RAX], -EINTR);
}

static void test_a_call_begins_again_after_a_stop(void **state)
{
    (void)state;
    ucontext_t context = set_back_to_read();
    stop_with(&context, PENDING_NONE);
    assert_begins_again(&context, SYS_read);
    stop_with(&context, PENDING_NONE);
    assert_begins_again(&context, SYS_read);
    context = set_back_by_stop();
    stop_with(&context, PENDING_NONE);
    assert_begins_again(&context, SYS_poll);
}

static void test_a_pending_signal_ends_what_its_handler_does_not_restart(void **state)
{
    (void)state;
    for (int stops = 0; stops < 3; stops++) {
        ucontext_t context = set_back_to_read();
        for (int i = 0; i < stops; i++)
            stop_with(&context, PENDING_NONE);
        stop_with(&context, SA_RESTART);
        assert_begins_again(&context, SYS_read);
        stop_with(&context, 0);
        assert_ended(&context);
    }
}

static void test_a_semaphore_is_awaited_again_after_a_handler_with_restart(void **state)
{
    (void)state;
    const int operations[] = {FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, FUTEX_WAIT_PRIVATE};
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        ucontext_t context = set_back_to(SYS_futex, operations[i], 0);
        stop_with(&context, SA_RESTART);
        assert_begins_again(&context, SYS_futex);
        stop_with(&context, 0);
        assert_ended(&context);
    }
}

static void test_a_pending_signal_ends_what_a_stop_has_set_back(void **state)
{
    (void)state;
    const int flags[] = {0, SA_RESTART};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        ucontext_t context = set_back_by_stop();
        stop_with(&context, flags[i]);
        assert_ended(&context);
    }
}

static void test_a_handler_behind_the_stop_ends_what_it_does_not_restart(void **state)
{
    (void)state;
    ucontext_t context = set_back_to_read();
    note_handled(&context, false); /* the kernel has judged it */
    assert_begins_again(&context, SYS_read);
    stop_with(&context, PENDING_NONE);
    note_handled(&context, true);
    assert_begins_again(&context, SYS_read);
    note_handled(&context, false);
    assert_ended(&context);
    stop_with(&context, PENDING_NONE); /* which is not the stop's doing */
    assert_ended(&context);
}

/* Which may be of the process, and be handled by another thread. */
static void test_a_pending_signal_ends_nothing_if_its_handler_will(void **state)
{
    (void)state;
    const struct {
        int flags;
        void (*restorer)(void);
    } handlers[] = {{0, restore_from_ending}, {SA_RESTART, restore_from_restarting}};
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
        ucontext_t read = set_back_to_read(), poll = set_back_by_stop();
        stop_with_handler(&read, handlers[i].flags, handlers[i].restorer);
        assert_begins_again(&read, SYS_read);
        note_handled(&read, handlers[i].flags != 0);
        if (handlers[i].flags)
            assert_begins_again(&read, SYS_read);
        else
            assert_ended(&read);
        stop_with_handler(&poll, handlers[i].flags, handlers[i].restorer);
        assert_begins_again(&poll, SYS_poll);
        note_handled(&poll, handlers[i].flags != 0);
        assert_ended(&poll);
    }
}

static void test_each_call_that_the_kernel_restarts_is_known(void **state)
{
    (void)state;
    static const long calls[] = {SYS_read,         SYS_readv,           SYS_preadv2,
                                 SYS_write,        SYS_writev,          SYS_pwritev2,
                                 SYS_recvfrom,     SYS_recvmsg,         SYS_recvmmsg,
                                 SYS_sendto,       SYS_sendmsg,         SYS_sendmmsg,
                                 SYS_splice,       SYS_vmsplice,        SYS_tee,
                                 SYS_sendfile,     SYS_accept,          SYS_accept4,
                                 SYS_connect,      SYS_creat,           SYS_open,
                                 SYS_openat,       437 /* openat2 */,   449 /* futex_waitv */,
                                 SYS_wait4,        SYS_waitid,          SYS_flock,
                                 SYS_mq_timedsend, SYS_mq_timedreceive, SYS_ioctl};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        ucontext_t context = set_back_to(calls[i], 0, 0);
        stop_with(&context, 0);
        assert_ended(&context);
    }
}

static void test_what_every_handler_restarts_begins_again(void **state)
{
    (void)state;
    const struct {
        long call, second;
    } calls[] = {{SYS_clone, 0}, {SYS_fcntl, F_GETFL}, {SYS_futex, FUTEX_LOCK_PI}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        ucontext_t context = set_back_to(calls[i].call, calls[i].second, 0);
        stop_with(&context, PENDING_NONE);
        note_handled(&context, false);
        stop_with(&context, 0);
        assert_begins_again(&context, calls[i].call);
    }
}

/* As after SIGCONT: a wait for ever, and one that its wrapper makes again. */
static void test_what_the_kernel_was_to_restart_is_made_again(void **state)
{
    (void)state;
    static const unsigned char poll_code[2 * BEFORE] = {
        [AT_CALL - 5] = 0xB8, SYS_poll, [AT_CALL] = 0x0F, 0x05};
    for (long limit = -1; limit < 2; limit += 2) {
        ucontext_t context = set_back_to(SYS_restart_syscall, 0, limit);
        greg_t *registers = context.uc_mcontext.gregs;
        registers[REG_RIP] = (greg_t)(uintptr_t)poll_code + AT_CALL;
        registers[REG_RCX] = registers[REG_RIP] + 2;
        uint32_t before = last_ended_wait();
        stop_with(&context, PENDING_NONE);
        assert_int_equal(registers[REG_RAX], limit < 0 ? SYS_poll : -EINTR);
        assert_int_equal(registers[REG_RIP],
                         (uintptr_t)poll_code + (limit < 0 ? AT_CALL : BEHIND_CALL));
        assert_int_equal(last_ended_wait() != before, limit > 0);
    }
}

/* tcdrain, and a break. */
static void test_output_is_awaited_again(void **state)
{
    (void)state;
    static const unsigned char ioctl_code[2 * BEFORE] = {
        [AT_CALL - 5] = 0xB8, SYS_ioctl, [AT_CALL] = 0x0F, 0x05};
    for (long argument = 0; argument < 2; argument++) {
        ucontext_t context = set_back_to(-EINTR, TCSBRK, argument);
        greg_t *registers = context.uc_mcontext.gregs;
        registers[REG_RIP] = registers[REG_RCX] = (greg_t)(uintptr_t)ioctl_code + BEHIND_CALL;
        stop_with(&context, PENDING_NONE);
        assert_int_equal(registers[REG_RAX], argument ? SYS_ioctl : -EINTR);
        assert_int_equal(registers[REG_RIP],
                         (uintptr_t)ioctl_code + (argument ? AT_CALL : BEHIND_CALL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_begins_again_after_a_stop),
        cmocka_unit_test(test_a_pending_signal_ends_what_its_handler_does_not_restart),
        cmocka_unit_test(test_a_semaphore_is_awaited_again_after_a_handler_with_restart),
        cmocka_unit_test(test_a_pending_signal_ends_what_a_stop_has_set_back),
        cmocka_unit_test(test_a_handler_behind_the_stop_ends_what_it_does_not_restart),
        cmocka_unit_test(test_a_pending_signal_ends_nothing_if_its_handler_will),
        cmocka_unit_test(test_each_call_that_the_kernel_restarts_is_known),
        cmocka_unit_test(test_what_the_kernel_was_to_restart_is_made_again),
        cmocka_unit_test(test_output_is_awaited_again),
        cmocka_unit_test(test_what_every_handler_restarts_begins_again),
    };
    return cmocka_run_group_tests_name("interrupted_waits", tests, NULL, NULL);
}
