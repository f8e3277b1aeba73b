/* SPDX-License-Identifier: MIT
 *
 * stop.c: stopping the world by a signal that the program cannot see.
 *
 * glibc keeps two real-time signals to itself. It hides them from sigaction, from the sets that
 * programs build and from sigwait. One of them, SIGSETXID, is sent here with a code of our own in
 * si_code. One that comes with another code goes on to glibc's handler, so setuid keeps working.
 * glibc installs its handler when it first needs it, so each stop checks that ours is installed.
 *
 * Threads are those that the kernel lists, however they were made. Every new one is sent the
 * signal, every one is waited for, and the list is read again until it holds none that is new. A
 * stopped thread cannot make threads, so this ends. Left out are zombies, threads that are about to
 * end, and the kernel's own workers, which take signals and never answer.
 *
 * A stop is given up, and all threads go on, when answers are missing after ACK_TIMEOUT_NS, or
 * after STARVED_TIMEOUT_NS where each thread that owes one can give it and only lacks a processor,
 * or its vfork child does.
 *
 *     stopper                                    thread
 *     epoch becomes odd
 *     its state = EXPECTED | epoch   -- signal (epoch, index) -->
 *                                                state: EXPECTED | epoch -> its frame
 *     <---------------------------------- acks++ --
 *     ...                                        waits while the epoch is the same
 *     every state = GONE
 *     epoch becomes even             -- futex -->
 *
 * Shared words
 *   epoch         Writer: the stopper. Odd from the start of a stop to its end.
 *   state         Writer: the stopper, but for one change: the thread makes EXPECTED | epoch the
 *                 address of its frame, by compare and swap.
 *   acks          Writer: threads. The stopper sleeps on it; what counts are the states.
 *   acks_needed   Writer: the stopper. The thread that reaches it wakes the stopper.
 *   the rest of `stop`, and of a record
 *                 Writer: the stopper, which holds the collector's lock.
 *   was_in_call   Writer: the stopped thread. A hint, read and written in no order.
 *   on_request    Writer: stop_listen, always the same value.
 * Invariants
 * [late ack]      A thread that answers too late finds GONE or another epoch in its state, or the
 *                 epoch changed, and returns from the signal at once. So a stop that is given up
 *                 leaves nothing behind but signals that are still to be delivered. (They would
 *                 kill a program that comes by execve: stop_take_late_signals.)
 * [frame stays]   A thread whose frame is in its state does not leave the handler until the epoch
 *                 changes. The stopper reads frames only before resume_world.
 * [closed set]    When stop_world returns STOP_DONE, every thread of the process is the stopper,
 *                 is stopped, or runs no code of the program. For that the last list must be
 *                 complete. The kernel's list is not, if a thread ends at the moment when it is
 *                 listed: Linux then leaves out the next one (next_tid and first_tid in
 *                 fs/proc/base.c). Stopped threads do not end. So the list is read again if one
 *                 that it named, and that is not stopped, has ended since.
 *
 * The handler runs on whatever stack the kernel chose. It takes at most 512 bytes of it beside the
 * kernel's frame, as docs/gc.md promises: so no buffers there, and no calls but these. An answer to
 * a request takes more (ANSWER_STACK_BYTES): where an alternate stack lacks that, there is none.
 *
 * Threads that were in a system call when they were last stopped are sent their signal last. The
 * signal wakes such a thread, and where processors are few it takes the stopper's processor. A
 * running thread without a signal yet could then get the processor for a time slice of
 * milliseconds.
 *
 * A stop interrupts the system call that a thread is in. How it goes on: interrupted_waits.c.
 */
#include "gc/world/stop.h"

#include <cpuid.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <ucontext.h>

#include "vm/private_memory.h"
#include "vm/kernel/process.h"
#include "gc/world/interrupted_waits.h"
#include "gc/world/recorder.h"
#include "vm/clock.h"
#include "vm/kernel_action.h"
#include "vm/lock.h"
#include "vm/signals.h"
#include "vm/syscall.h"

enum {
    STOP_CODE = -23117, /* negative: from a process; not one that the kernel or glibc uses */
    ASK_CODE = -23118,  /* as analysis/allotrope/features/leaks/ask.py sends it */
    MAX_THREADS = 65536,
    INDEX_BITS = 20,
    ANSWER_STACK_BYTES = 1024, /* twice what was measured: docs/leaks.md */
};

/* How long a thread may take to answer, and how soon the kernel is asked what it does. One that
 * would answer if it had a processor is given more time: then the machine is so busy that the
 * program stands anyway. */
static const uint64_t ACK_TIMEOUT_NS = 100000000, STARVED_TIMEOUT_NS = 20000000000;
enum { FIRST_CHECK_NS = 1000000 };

/* PF_* of include/linux/sched.h, as in field 9 of stat. EXITING stays set in a thread
 * that has ended and is listed all the same. */
enum { EXITING = 0x4, IO_WORKER = 0x10, USER_WORKER = 0x4000 };

struct frame {
    const ucontext_t *context;
    uintptr_t thread_pointer, gs_base;
};

/* state: EXPECTED | epoch, GONE, or the address of a struct frame on the thread's stack. */
struct thread_record {
    pid_t thread;
    bool unsent;
    uint32_t list; /* the number of the last list that names it */
    pid_t timed;   /* itself or its vfork child; 0: nobody yet */
    uint64_t ran;  /* the processor time of `timed`, in ns, when it was first asked about */
    _Atomic uint64_t state;
};
static const uint64_t EXPECTED = UINT64_C(1) << 63, GONE = 1;

static struct {
    struct thread_record *records;
    size_t count;
    pid_t process, self;
    enum stop_failure failure;
    size_t added;                       /* that were new in the last list */
    uint32_t lists;                     /* that were read in this stop */
    _Atomic uint32_t epoch;             /* odd while the world is stopped */
    _Atomic uint32_t acks, acks_needed; /* see above */
} stop;

/* The action that on_signal replaces. install_handler writes it when on_signal is not the handler:
 * at the first collection or stop_listen, and after somebody else has set the action. A thread that
 * collects and one that listens may write it at the same time: both write what the kernel told
 * them, which is the same. A thread in on_signal may read it meanwhile, but only one word, the
 * handler. */
static struct kernel_action glibc_action;

/* By the kernel's number of the thread: whether it was in a system call when it was last stopped.
 * No more than a guess. */
enum { HASHED = 1024 };
static _Atomic bool was_in_call[HASHED];

static void futex_wait(_Atomic uint32_t *word, uint32_t value, const struct timespec *timeout)
{
    SYSCALL_4(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout);
}

static void futex_wake_all(_Atomic uint32_t *word)
{
    SYSCALL_3(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

/* In the thread that is stopped. */

static bool can_read_gs_base;

static uintptr_t gs_base(void)
{
    uintptr_t base = 0;
    if (can_read_gs_base)
        __asm__ volatile("rdgsbase %0" : "=r"(base));
    return base;
}

/* [late ack], [frame stays] */
static void wait_for_resume(struct frame *frame, uint64_t cookie)
{
    size_t index = cookie & ((1 << INDEX_BITS) - 1);
    uint32_t epoch = (uint32_t)(cookie >> INDEX_BITS);
    uint64_t waiting = EXPECTED | epoch;
    if (index >= MAX_THREADS ||
        !atomic_compare_exchange_strong(&stop.records[index].state, &waiting, (uint64_t)frame))
        return;
    atomic_store_explicit(&was_in_call[stop.records[index].thread % HASHED],
                          is_in_call(frame->context), memory_order_relaxed);
    if (atomic_fetch_add(&stop.acks, 1) + 1 == atomic_load(&stop.acks_needed))
        futex_wake_all(&stop.acks);
    while (atomic_load(&stop.epoch) == epoch)
        futex_wait(&stop.epoch, epoch, NULL);
}

static void (*on_request)(uintptr_t rip);

/* Whether an alternate stack that the handler runs on has room for an answer. */
static bool has_room_for_answer(const ucontext_t *context)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t left = here - (uintptr_t)context->uc_stack.ss_sp;
    return context->uc_stack.ss_flags & SS_DISABLE || left >= context->uc_stack.ss_size ||
           left >= ANSWER_STACK_BYTES;
}

static __attribute__((noinline)) void answer_request(ucontext_t *context)
{
    if (!on_request || !is_in_call(context))
        return;
    struct interrupted_wait wait = interrupt_wait(context);
    if (has_room_for_answer(context))
        on_request((uintptr_t)context->uc_mcontext.gregs[REG_RIP]);
    continue_wait(&wait, context);
}

static void on_signal(int signal, siginfo_t *info, void *interrupted)
{
    ucontext_t *context = interrupted;
    if (info->si_code == ASK_CODE) {
        answer_request(context);
        return;
    }
    if (info->si_code != STOP_CODE) {
        if ((uintptr_t)glibc_action.handler > 1) /* neither default nor ignored */
            glibc_action.handler(signal, info, interrupted);
        return;
    }
    doorbell_enter_collector(); /* left by the return from the signal */
    struct frame frame = {
        .context = context, .thread_pointer = current_thread(), .gs_base = gs_base()};
    struct interrupted_wait wait = interrupt_wait(context);
    wait_for_resume(&frame, (uint64_t)info->si_value.sival_ptr);
    continue_wait(&wait, context);
}

/* In the thread that stops the others. */

static bool install_handler(void)
{
    struct kernel_action action = {on_signal,
                                   SA_SIGINFO | SA_RESTART | SA_ONSTACK | KERNEL_RESTORER,
                                   restore_from_signal, ~UINT64_C(0)};
    struct kernel_action current;
    if (syscall_failed(kernel_set_action(STOP_SIGNAL, NULL, &current)))
        return false;
    if (current.handler == on_signal)
        return true;
    glibc_action = current;
    return !syscall_failed(kernel_set_action(STOP_SIGNAL, &action, NULL));
}

bool stop_listen(void (*asked)(uintptr_t rip))
{
    on_request = asked;
    return install_handler();
}

void stop_take_late_signals(void)
{
    static const struct timespec now = {0};
    const uint64_t set = signal_bit(STOP_SIGNAL);
    siginfo_t info, of_glibc;
    bool has_other = false;
    while (SYSCALL_4(SYS_rt_sigtimedwait, &set, &info, &now, sizeof set) == STOP_SIGNAL)
        if (info.si_code != STOP_CODE && info.si_code != ASK_CODE) {
            of_glibc = info;
            has_other = true;
        }
    if (has_other) /* one: glibc sends the next when this one is answered */
        SYSCALL_4(SYS_rt_tgsigqueueinfo, SYSCALL_0(SYS_getpid), SYSCALL_0(SYS_gettid), STOP_SIGNAL,
                  &of_glibc);
}

uintptr_t stop_own_gs_base(void)
{
    return gs_base();
}

bool stop_init(void)
{
    /* The kernel allows the instructions, and the processor has them: Valgrind's has not. */
    enum { BASES_ALLOWED = 1 << 1, LEAF = 7, HAS_BASES = 1 };
    unsigned a, b, c, d;
    can_read_gs_base = (getauxval(AT_HWCAP2) & BASES_ALLOWED) != 0 &&
                       __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && b & HAS_BASES;
    interrupted_waits_init();
    stop.records = private_memory_map(MAX_THREADS * sizeof *stop.records);
    return stop.records != NULL;
}

/* NULL: it was in no list yet. */
static struct thread_record *record_of(pid_t thread)
{
    for (size_t i = 0; i < stop.count; i++)
        if (stop.records[i].thread == thread)
            return &stop.records[i];
    return NULL;
}

static bool signal_thread(struct thread_record *record)
{
    uint64_t epoch = stop.epoch, index = (uint64_t)(record - stop.records);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = STOP_SIGNAL;
    info.si_code = STOP_CODE;
    info.si_pid = stop.process;
    info.si_value.sival_ptr = (void *)(epoch << INDEX_BITS | index);
    record->unsent = false;
    long result =
        SYSCALL_4(SYS_rt_tgsigqueueinfo, stop.process, record->thread, STOP_SIGNAL, &info);
    if (result == -ESRCH)
        atomic_store(&record->state, GONE);
    return !syscall_failed(result) || result == -ESRCH;
}

static bool add_if_new(void *argument, pid_t thread)
{
    (void)argument;
    if (thread == stop.self)
        return true;
    struct thread_record *record = record_of(thread);
    if (record) {
        record->list = stop.lists;
        return true;
    }
    if (stop.count == MAX_THREADS) {
        stop.failure = STOP_TOO_MANY;
        return false;
    }
    record = &stop.records[stop.count++];
    record->thread = thread;
    record->list = stop.lists;
    record->unsent = true;
    record->timed = 0;
    atomic_store(&record->state, EXPECTED | stop.epoch);
    stop.added++;
    return true;
}

static bool signal_added(bool waiting_too)
{
    for (size_t i = 0; i < stop.count; i++) {
        struct thread_record *record = &stop.records[i];
        if (record->unsent && (waiting_too || !was_in_call[record->thread % HASHED]) &&
            !signal_thread(record)) {
            stop.failure = STOP_NO_SIGNAL;
            return false;
        }
    }
    return true;
}

/* What is to be done about a thread that has not answered. */
enum outlook {
    ANSWERS,  /* it does, when the kernel lets it */
    DOUBTFUL, /* it may block the signal, or wait for a disk, a tracer or its vfork child */
    NEVER,    /* it will never run the program's code again, or never did */
};

/* Whether one that could run has had little time to since it was first asked about: a thread of
 * ours, or its child. A newborn thread of libc's, say, blocks all signals until it has begun. */
static bool is_starved(struct thread_record *record, pid_t who)
{
    enum { OF_ONE_THREAD = 4, ALL_TIME = 2 }; /* CPUCLOCK_* of include/linux/posix-timers.h */
    struct timespec time;
    unsigned kind = who == record->thread ? OF_ONE_THREAD | ALL_TIME : ALL_TIME;
    long clock = (long)((unsigned)~who << 3 | kind);
    if (syscall_failed(SYSCALL_2(SYS_clock_gettime, (int)clock, &time)))
        return false;
    uint64_t ran = timespec_ns(time);
    if (record->timed != who) {
        record->timed = who;
        record->ran = ran;
    }
    return ran - record->ran < ACK_TIMEOUT_NS / 2;
}

/* Of a thread that waits without a signal's being able to wake it: whether it waits for a vfork
 * child that needs no more than a processor. */
static bool has_starved_child(struct thread_record *record)
{
    pid_t child = process_newest_child(record->thread);
    char state;
    unsigned long flags;
    return child > 0 && process_state(child, &state, &flags) && state == 'R' &&
           is_starved(record, child);
}

static bool has_ended(pid_t thread)
{
    return SYSCALL_3(SYS_tgkill, stop.process, thread, 0) == -ESRCH;
}

static enum outlook outlook_of(struct thread_record *record)
{
    pid_t thread = record->thread;
    char state;
    unsigned long flags;
    if (has_ended(thread))
        return NEVER;
    if (!process_thread_state(thread, &state, &flags))
        return DOUBTFUL;
    if (flags & (EXITING | IO_WORKER | USER_WORKER))
        return NEVER;
    if (state == 'D') {
        if (has_starved_child(record))
            return ANSWERS;
        if (!process_thread_state(thread, &state, &flags)) /* the child may have ended since */
            return DOUBTFUL;
    }
    if (state != 'R')
        return DOUBTFUL;
    return !process_thread_holds_back(thread, STOP_SIGNAL) || is_starved(record, thread) ? ANSWERS
                                                                                         : DOUBTFUL;
}

struct missing {
    size_t count, doubtful;
};

static struct missing count_missing_acks(bool ask)
{
    struct missing missing = {0};
    for (size_t i = 0; i < stop.count; i++) {
        uint64_t state = atomic_load(&stop.records[i].state);
        if (!(state & EXPECTED))
            continue;
        enum outlook outlook = ask ? outlook_of(&stop.records[i]) : DOUBTFUL;
        if (outlook == NEVER) {
            atomic_compare_exchange_strong(&stop.records[i].state, &state, GONE);
            continue;
        }
        if (!(atomic_load(&stop.records[i].state) & EXPECTED))
            continue; /* it has answered meanwhile, and sleeps */
        missing.count++;
        missing.doubtful += outlook == DOUBTFUL;
    }
    return missing;
}

static bool wait_for_acks(void)
{
    static const struct timespec slice = {.tv_nsec = FIRST_CHECK_NS};
    uint64_t begun = monotonic_ns();
    for (;;) {
        uint32_t acks = atomic_load(&stop.acks);
        uint64_t waited = monotonic_ns() - begun;
        struct missing missing = count_missing_acks(waited >= FIRST_CHECK_NS);
        if (missing.count == 0)
            return true;
        if (waited >= (missing.doubtful > 0 ? ACK_TIMEOUT_NS : STARVED_TIMEOUT_NS)) {
            stop.failure = STOP_TIMEOUT;
            return false;
        }
        atomic_store(&stop.acks_needed, acks + (uint32_t)missing.count);
        futex_wait(&stop.acks, acks, &slice);
    }
}

/* Whether the last list may lack a thread: one that it names has ended since. */
static bool list_may_lack_one(void)
{
    for (size_t i = 0; i < stop.count; i++) {
        const struct thread_record *record = &stop.records[i];
        if (record->list == stop.lists && atomic_load(&record->state) == GONE &&
            has_ended(record->thread))
            return true;
    }
    return false;
}

/* [closed set] */
static bool stop_all(void)
{
    do {
        stop.added = 0;
        stop.lists++;
        if (!process_each_thread(add_if_new, NULL)) {
            if (stop.failure == STOP_DONE)
                stop.failure = STOP_NO_THREAD_LIST;
            return false;
        }
        if (!signal_added(false) || !signal_added(true) || !wait_for_acks())
            return false;
    } while (stop.added > 0 || list_may_lack_one());
    return true;
}

enum stop_failure stop_world(void)
{
    if (!install_handler())
        return STOP_NO_SIGNAL;
    stop.count = 0;
    stop.failure = STOP_DONE;
    stop.process = (pid_t)SYSCALL_0(SYS_getpid);
    stop.self = (pid_t)SYSCALL_0(SYS_gettid);
    atomic_fetch_add(&stop.epoch, 1);
    if (stop_all())
        return STOP_DONE;
    resume_world();
    return stop.failure;
}

/* The states first: whoever sees the new epoch may leave its frame. [frame stays] */
void resume_world(void)
{
    for (size_t i = 0; i < stop.count; i++)
        atomic_store(&stop.records[i].state, GONE);
    atomic_fetch_add(&stop.epoch, 1);
    futex_wake_all(&stop.epoch);
}

static bool wait_for_return(void *argument, pid_t thread)
{
    static const struct timespec pause = {.tv_nsec = 1000000};
    (void)argument;
    for (int tries = 0; tries < 100 && process_thread_blocks(thread, STOP_SIGNAL); tries++)
        SYSCALL_2(SYS_nanosleep, &pause, NULL);
    return true;
}

void wait_for_resumed(void)
{
    process_each_thread(wait_for_return, NULL);
}

size_t stopped_count(void)
{
    return stop.count;
}

struct stopped_thread stopped_thread(size_t index)
{
    uint64_t state = atomic_load(&stop.records[index].state);
    if (state == GONE)
        return (struct stopped_thread){0};
    const struct frame *frame = (const struct frame *)state;
    const stack_t *alternate = &frame->context->uc_stack;
    uintptr_t start = (uintptr_t)alternate->ss_sp;
    bool has_alternate = !(alternate->ss_flags & SS_DISABLE);
    return (struct stopped_thread){
        .stack_pointer = (uintptr_t)frame->context->uc_mcontext.gregs[REG_RSP],
        .frame = (uintptr_t)frame,
        .thread_pointer = frame->thread_pointer,
        .gs_base = frame->gs_base,
        .alternate_start = has_alternate ? start : 0,
        .alternate_end = has_alternate ? start + alternate->ss_size : 0,
    };
}
