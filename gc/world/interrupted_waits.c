/* SPDX-License-Identifier: MIT
 *
 * interrupted_waits.c: how the system call that a stop interrupts goes on.
 *
 * A stop interrupts the system call that a thread is in, and the program must not notice. At the
 * end of the handler the thread is in one of these cases:
 *
 *     the call                                  what becomes of it
 *     is one that SA_RESTART restarts           the kernel sets the thread back to it
 *     ended with EINTR in spite of that (poll,  the thread is set back to the system call
 *       select, sleeps, ...). It has no limit,  instruction, so the call begins again
 *       or a point in time as its limit
 *     ended so, and the kernel has written the  the same; the time of the stop is taken off what
 *       time that is left for the program       is left, and a sleep with nothing left ends
 *     ended so; it has another limit, or which  the thread notes it (handled.c); the wrapper of
 *       call it is is not plain to see          libc's function calls again with what is left
 *                                               (shim/system_calls/waits.c)
 *     sent or received a part                   the same; the wrapper goes on with the rest
 *     any but the first, and a handler of the   it ends, as if the signal had come without a stop
 *       program's returned right before
 *     had not begun again yet: a stop, or the   it begins again
 *       kernel, had set the thread back
 *
 * A signal of the program's may have come during the stop, or comes in the few instructions between
 * a look for it and the return from the stop. It may be another thread that handles it. So a thread
 * that is set back to a call which handlers end is marked. When such a handler returns to it, the
 * call has ended with EINTR (handled.c). Some handlers do not return by way of handled.c: for them
 * the look decides, and ends the call.
 *
 * What has no wrapper (a call by number; read and connect on a socket with a limit) ends with EINTR
 * or with a part where a wrapper is named above.
 *
 * The time of the stop is subtracted. Otherwise a short sleep would never end while collections
 * follow each other closely.
 */
#include "gc/world/interrupted_waits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "gc/world/handled.h"
#include "gc/world/stop.h"
#include "vm/clock.h"
#include "vm/kernel_action.h"
#include "vm/pages.h"
#include "vm/protection_keys.h"
#include "vm/signals.h"
#include "vm/syscall.h"

#ifndef SYS_openat2 /* of Linux 5.6 and 5.16: headers may be older */
#define SYS_openat2 437
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* As io_uring_enter takes it, and its flags. */
struct ring_wait {
    uint64_t mask;
    uint32_t mask_bytes, least_wait;
    uint64_t limit;
};
enum { RING_LIMIT_BELOW = 1 << 3, RING_LIMIT_REGISTERED = 1 << 6 };

static bool code_may_be_unreadable; /* protection keys can forbid it */

void interrupted_waits_init(void)
{
    code_may_be_unreadable = has_protection_keys();
}

enum {
    CALL_BYTES = 12,    /* from loading a number to behind its system call, where it is plain */
    FARTHER_BYTES = 17, /* glibc's recvfrom and sendto, in programs with threads */
    NO_CALL = 0x90,     /* nop */
};

/* Copies memory of the program's. False: it cannot be read. */
static bool read_program(const void *start, void *copy, size_t bytes)
{
    struct iovec to = {copy, bytes}, from = {(void *)(uintptr_t)start, bytes};
    return SYSCALL_6(SYS_process_vm_readv, SYSCALL_0(SYS_getpid), &to, 1, &from, 1, 0) ==
           (long)bytes;
}

/* Copies instructions; what cannot be read is NO_CALL. They may begin a page, or end it, and what
 * lies beside that page may be gone. */
static void copy_code(uintptr_t start, unsigned char *copy, size_t bytes, uintptr_t running)
{
    bool in_page = (start ^ running) < PAGE_BYTES && ((start + bytes - 1) ^ running) < PAGE_BYTES;
    memset(copy, NO_CALL, bytes);
    if (in_page && !code_may_be_unreadable) {
        memcpy(copy, (const void *)start, bytes);
        return;
    }
    read_program((const void *)start, copy, bytes);
}

static bool is_system_call(const unsigned char *instruction)
{
    return instruction[0] == 0x0F && instruction[1] == 0x05;
}

static bool is_at_system_call(const greg_t *registers)
{
    unsigned char code[2];
    uintptr_t at = (uintptr_t)registers[REG_RIP];
    copy_code(at, code, sizeof code, at);
    return is_system_call(code);
}

/* The number of the system call that has just ended: compilers and glibc load it right before, or
 * with one more instruction between. bytes: how far to look; beyond CALL_BYTES it is a guess. -1:
 * it is not plain to see. */
static long call_within(const greg_t *registers, size_t bytes)
{
    unsigned char code[FARTHER_BYTES];
    uintptr_t after = (uintptr_t)registers[REG_RIP];
    copy_code(after - bytes, code, bytes, after);
    const unsigned char *call = code + bytes - 2;
    if (!is_system_call(call))
        return -1;
    for (size_t distance = 5; distance <= bytes - 2; distance++) {
        const unsigned char *at = call - distance;
        if (at[0] == 0xB8 && at[3] == 0 && at[4] == 0) /* mov $number, %eax */
            return at[1] | at[2] << 8;
    }
    return -1;
}

static long interrupted_call(const greg_t *registers)
{
    return call_within(registers, CALL_BYTES);
}

/* A pointer to the time may be in a structure that the flags tell of. The call may not have been
 * made yet: then the structure's address is the kernel's to judge. */
static bool ring_waits_without_limit(const greg_t *registers)
{
    unsigned flags = (unsigned)registers[REG_R10];
    if (flags & RING_LIMIT_REGISTERED)
        return false;
    struct ring_wait wait = {.limit = 0};
    if (flags & RING_LIMIT_BELOW)
        read_program((const void *)registers[REG_R8], &wait, sizeof wait);
    return wait.limit == 0;
}

/* Whether the call may be restarted with the registers as they are. */
static bool is_restartable(long call, const greg_t *registers)
{
    switch (call) {
    case SYS_pause:
    case SYS_rt_sigsuspend:
    case SYS_select: /* the kernel has written back what is left */
    case SYS_pselect6:
    case SYS_ppoll:
    case SYS_semop:
    case SYS_msgrcv:
    case SYS_msgsnd:
        return true;
    case SYS_poll: /* without a limit, or without a wait */
        return (int)registers[REG_RDX] <= 0;
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
        return (int)registers[REG_R10] <= 0;
    case SYS_epoll_pwait2:
    case SYS_semtimedop:
        return registers[REG_R10] == 0;
    case SYS_io_getevents:
    case SYS_io_pgetevents:
        return registers[REG_R8] == 0;
    case SYS_io_uring_enter: /* has then handed in nothing */
        return ring_waits_without_limit(registers);
    case SYS_rt_sigtimedwait:
        return registers[REG_RDX] == 0;
    case SYS_clock_nanosleep:
        return registers[REG_RSI] & TIMER_ABSTIME || registers[REG_R10] != 0;
    case SYS_nanosleep:
        return registers[REG_RSI] != 0;
    case SYS_ioctl: /* tcdrain; without an argument it sends a break */
        return (int)registers[REG_RSI] == TCSBRK && (int)registers[REG_RDX] != 0;
    case SYS_futex: {
        int operation = (int)registers[REG_RSI] & FUTEX_CMD_MASK;
        return operation == FUTEX_WAIT_BITSET || operation == FUTEX_WAIT_REQUEUE_PI ||
               (operation == FUTEX_WAIT && registers[REG_R10] == 0);
    }
    default:
        return false;
    }
}

/* Whether the thread is about to make a call that SA_RESTART restarts, and that a handler without
 * SA_RESTART ends. (Others are made again whoever handles the signal, as fork is.) A call that has
 * not begun may be taken for one that was set back (handled.c), and would end with EINTR. So calls
 * that are hardly ever interrupted are left out. */
static bool ends_without_restart(const greg_t *registers)
{
    if (!is_at_system_call(registers))
        return false;
    switch (registers[REG_RAX]) {
    case SYS_read:
    case SYS_readv:
    case SYS_write:
    case SYS_writev:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_recvmmsg:
    case SYS_sendmmsg:
    case SYS_preadv2:
    case SYS_pwritev2:
    case SYS_splice:
    case SYS_vmsplice:
    case SYS_tee:
    case SYS_sendfile:
    case SYS_creat: /* of a FIFO, as those that follow */
    case SYS_open:
    case SYS_openat:
    case SYS_openat2:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_flock:
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
    case SYS_futex_waitv:
    case SYS_ioctl: /* of some devices */
        return true;
    case SYS_fcntl:
        return registers[REG_RSI] == F_SETLKW || registers[REG_RSI] == F_OFD_SETLKW;
    case SYS_futex: {
        int operation = (int)registers[REG_RSI] & FUTEX_CMD_MASK;
        return operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
    }
    default:
        return false;
    }
}

/* Whether a signal is to be delivered for which the program has a handler that will not end the
 * wait as it returns (handled.c). without: and whose handler has none of these flags. Handlers that
 * will end the wait are left out: their signal may be the process's, and another thread take it. */
static bool program_has_signal(const ucontext_t *context, unsigned long without)
{
    uint64_t pending = 0, blocked;
    memcpy(&blocked, &context->uc_sigmask, sizeof blocked);
    SYSCALL_2(SYS_rt_sigpending, &pending, sizeof pending);
    pending &= ~blocked & ~signal_bit(STOP_SIGNAL);
    for (; pending; pending &= pending - 1) {
        struct kernel_action action = {0};
        kernel_set_action(__builtin_ctzl(pending) + 1, NULL, &action);
        bool is_handled = (uintptr_t)action.handler > 1; /* not by default, nor ignored */
        if (is_handled && !ends_waits(action.restorer) && !(action.flags & without))
            return true;
    }
    return false;
}

static bool is_behind_system_call(const greg_t *registers)
{
    unsigned char code[2];
    uintptr_t after = (uintptr_t)registers[REG_RIP];
    copy_code(after - sizeof code, code, sizeof code, after);
    return is_system_call(code);
}

/* Whether the thread has just ended a call that may have transferred only a part of its bytes. Only
 * the wrapper that made the call knows whether it has, so a guess will do. */
static bool may_be_cut_short(const greg_t *registers)
{
    if (registers[REG_RAX] <= 0 || was_handled(registers) || !is_behind_system_call(registers))
        return false;
    switch (call_within(registers, FARTHER_BYTES)) {
    case -1:
        return true; /* glibc from 2.41 on */
    case SYS_write:
    case SYS_sendto:
    case SYS_recvfrom:
        return registers[REG_RAX] < registers[REG_RDX];
    case SYS_writev:
    case SYS_pwritev2:
    case SYS_sendmsg:
    case SYS_recvmsg:
    case SYS_sendmmsg:
    case SYS_recvmmsg:
        return true;
    default:
        return false;
    }
}

/* Whether the thread has just ended a call in EINTR, and no handler of the program's has run since:
 * then it is the stop that has ended the call. A few instructions later rax may still be -EINTR.
 * Then it is not the stop that has ended the call, so rip is looked at as well. */
static bool is_interrupted(const greg_t *registers)
{
    return registers[REG_RAX] == -EINTR && !was_handled(registers) &&
           is_behind_system_call(registers);
}

/* Returns none for a sleep that has not waited yet: it has only the time that the program asked
 * for, which may lie in memory that must not be written. */
static struct time_left time_left(const greg_t *registers)
{
    bool interrupted = is_interrupted(registers);
    if (!interrupted && !is_at_system_call(registers))
        return (struct time_left){0};
    greg_t asked, left;
    switch (interrupted ? interrupted_call(registers) : registers[REG_RAX]) {
    case SYS_select:
        return (struct time_left){(struct timespec *)registers[REG_R8], 1000000, false, false};
    case SYS_pselect6:
        return (struct time_left){(struct timespec *)registers[REG_R8], 1000000000, false, false};
    case SYS_ppoll:
        return (struct time_left){(struct timespec *)registers[REG_RDX], 1000000000, false, false};
    case SYS_nanosleep:
        asked = registers[REG_RDI];
        left = registers[REG_RSI];
        break;
    case SYS_clock_nanosleep:
        asked = registers[REG_RDX];
        left = registers[REG_R10];
        if (!(registers[REG_RSI] & TIMER_ABSTIME) &&
            runs_while_stopped((clockid_t)registers[REG_RDI]))
            break;
        return (struct time_left){0};
    default:
        return (struct time_left){0};
    }
    bool is_written = interrupted || asked == left;
    return (struct time_left){is_written ? (struct timespec *)left : NULL, 1000000000, true,
                              interrupted};
}

/* How late the kernel may end the calling thread's sleeps. Threads with real-time priorities have
 * none. */
static uint64_t timer_slack_ns(void)
{
    long slack = SYSCALL_1(SYS_prctl, PR_GET_TIMERSLACK);
    long policy = SYSCALL_1(SYS_sched_getscheduler, 0) & ~SCHED_RESET_ON_FORK;
    bool is_ordinary = policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE;
    return is_ordinary && !syscall_failed(slack) ? (uint64_t)slack : 0;
}

/* Takes the time that the thread was stopped for off what is left: the wait ends when the program
 * meant, however many stops there are. What cannot be written stays. Returns whether some is left.
 */
static bool count_stop_as_waited(struct time_left left, uint64_t stopped_ns)
{
    const int64_t longest = INT64_C(1) << 32; /* seconds; a longer wait may end late */
    int64_t now[2];
    struct iovec own = {now, sizeof now}, program = {left.time, sizeof now};
    if (!read_program(left.time, now, sizeof now) || now[0] < 0 || now[0] > longest || now[1] < 0 ||
        now[1] >= left.units)
        return true;
    if (left.has_slack)
        stopped_ns += timer_slack_ns();
    int64_t units = now[0] * left.units + now[1] - (int64_t)stopped_ns / (1000000000 / left.units);
    units = units > 0 ? units : 0;
    now[0] = units / left.units;
    now[1] = units % left.units;
    SYSCALL_6(SYS_process_vm_writev, SYSCALL_0(SYS_getpid), &own, 1, &program, 1, 0);
    return units > 0;
}

/* A sleep of no time would last as long as the kernel may be late, unless it is stopped again. */
static void end_sleep(greg_t *registers)
{
    if (registers[REG_RAX] != -EINTR)
        registers[REG_RIP] += 2; /* it was about to sleep */
    registers[REG_RAX] = 0;
}

/* A call that has not begun again: the program's signal would come before it. */
static void continue_set_back(ucontext_t *context, enum set_back by)
{
    greg_t *registers = context->uc_mcontext.gregs;
    if (by != SET_BACK_BY_STOP && !ends_without_restart(registers))
        return;
    if (program_has_signal(context, by == SET_BACK_BY_STOP ? 0 : SA_RESTART))
        end_call(registers);
    else
        mark_set_back(registers, by == SET_BACK_BY_STOP ? by : SET_BACK_FOR_STOP);
}

static void restart_interrupted_call(ucontext_t *context)
{
    greg_t *registers = context->uc_mcontext.gregs;
    enum set_back by = set_back(registers);
    if (by != NOT_SET_BACK) {
        continue_set_back(context, by);
        return;
    }
    bool cut_short = may_be_cut_short(registers);
    if ((!cut_short && !is_interrupted(registers)) || program_has_signal(context, 0))
        return;
    long call = cut_short ? -1 : interrupted_call(registers);
    if (call < 0 || !is_restartable(call, registers)) {
        note_ended_wait();
        return;
    }
    /* A relative sleep goes on with the time that the kernel wrote to where it was to. */
    if (call == SYS_nanosleep)
        registers[REG_RDI] = registers[REG_RSI];
    if (call == SYS_clock_nanosleep && !(registers[REG_RSI] & TIMER_ABSTIME))
        registers[REG_RDX] = registers[REG_R10];
    registers[REG_RAX] = call;
    registers[REG_RIP] -= 2;
    mark_set_back(registers, SET_BACK_BY_STOP);
}

bool is_in_call(const ucontext_t *context)
{
    const greg_t *registers = context->uc_mcontext.gregs;
    return registers[REG_RAX] == -EINTR || is_at_system_call(registers);
}

/* A wait was interrupted, and no handler has ended it: a stopped process went on (SIGCONT), or
 * another thread took the signal. The kernel has set the thread back to restart_syscall, which it
 * would forget with the return from the stop. Then it is as if the stop had interrupted it. */
static void end_kernels_restart(greg_t *registers)
{
    if (registers[REG_RAX] == SYS_restart_syscall && set_back(registers) == SET_BACK_BY_KERNEL &&
        is_at_system_call(registers)) {
        registers[REG_RIP] += 2;
        registers[REG_RAX] = -EINTR;
    }
}

struct interrupted_wait interrupt_wait(ucontext_t *context)
{
    end_kernels_restart(context->uc_mcontext.gregs);
    struct interrupted_wait wait = {.left = time_left(context->uc_mcontext.gregs)};
    wait.begun_ns = wait.left.time ? monotonic_ns() : 0;
    return wait;
}

void continue_wait(const struct interrupted_wait *wait, ucontext_t *context)
{
    bool is_over =
        wait->left.time && !count_stop_as_waited(wait->left, monotonic_ns() - wait->begun_ns);
    if (is_over && wait->left.is_sleep)
        end_sleep(context->uc_mcontext.gregs);
    else
        restart_interrupted_call(context);
}
