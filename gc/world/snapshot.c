/* SPDX-License-Identifier: MIT
 *
 * snapshot.c: see snapshot.h.
 *
 * The child is made by clone, with descriptors shared until it has taken a table of its own. It
 * goes on at the same place, on the same stack, of which it has a copy.
 *
 * The child ends when its parent process ends. The kernel sends it a signal when the thread that
 * made it ends. The handler then looks whether the whole process has ended.
 */
#include "gc/world/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "gc/world/excepted.h"
#include "gc/world/recorder.h"
#include "gc/world/roots.h"
#include "vm/clock.h"
#include "vm/granule_map.h"
#include "vm/kernel/copied.h"
#include "vm/kernel/process.h"
#include "vm/kernel_action.h"
#include "vm/owner.h"
#include "vm/pages.h"
#include "vm/private_memory.h"
#include "vm/signals.h"
#include "vm/syscall.h"
#include "vm/withheld.h"

enum { PARENT_SIGNAL = SIGUSR1 };

/* So many that failed one after the other are no accident. */
enum { HOPELESS = 3 };

static struct snapshot_statistics statistics;
static unsigned failures; /* since the last that was done */
/* [nothing lacking]: what is in blocks the parent does not read as roots. */
static bool lacks_blocks;

const struct snapshot_statistics *snapshot_statistics(void)
{
    return &statistics;
}

bool snapshot_is_possible(void)
{
    size_t recorded;
    recorder_ranges(&recorded);
    return recorded == 0 && failures < HOPELESS && !lacks_blocks && !roots_pages_fault();
}

/* In the child. */

static long parent;

static void end_with_parent(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    if (SYSCALL_0(SYS_getppid) != parent)
        SYSCALL_1(SYS_exit_group, 0);
}

/* A parent that has ended before the signal is asked for is noticed by the call. */
static void follow_parent(void)
{
    struct kernel_action action = {end_with_parent, SA_SIGINFO | SA_RESTART | KERNEL_RESTORER,
                                   restore_from_signal, ~UINT64_C(0)};
    uint64_t set = signal_bit(PARENT_SIGNAL);
    kernel_set_action(PARENT_SIGNAL, &action, NULL);
    SYSCALL_4(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, sizeof set);
    SYSCALL_2(SYS_prctl, PR_SET_PDEATHSIG, PARENT_SIGNAL);
    end_with_parent(0, NULL, NULL);
}

/* A crash leaves no core: a limit of one byte holds also where a program takes cores. Where memory
 * runs out the copy goes first. */
static void be_expendable(void)
{
    struct rlimit cores = {0};
    SYSCALL_2(SYS_getrlimit, RLIMIT_CORE, &cores);
    cores.rlim_cur = cores.rlim_max > 0;
    SYSCALL_2(SYS_setrlimit, RLIMIT_CORE, &cores);
    long file = SYSCALL_3(SYS_openat, AT_FDCWD, "self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (syscall_failed(file))
        return;
    SYSCALL_3(SYS_write, file, "1000", 4);
    SYSCALL_1(SYS_close, file);
}

/* Notes memory that the child lacks. The child needs nothing that it lacks of our own records:
 * these are pages that tell a child that it is one. */
static void note_missing(void *argument, uintptr_t start, uintptr_t end)
{
    struct snapshot_report *report = argument;
    for (uintptr_t at = start, next; at < end; at = next) {
        next = round_down(at, GRANULE_BYTES) + GRANULE_BYTES;
        next = next < end ? next : end;
        const struct owner *owner = granule_map_get((const void *)at);
        if (withheld_has((const void *)at))
            continue;
        if (owner) {
            report->lacks_blocks |= owner->kind != OWNER_RECORDS;
        } else if (excepted_is_lent(process_mapping_at(at)) || !roots_are_uncopied(at, next)) {
            if (report->missing_start == report->missing_end)
                report->missing_start = at;
            report->missing_end = next;
        }
    }
}

/* [nothing lacking] */
static enum snapshot_state compare_with_parent(struct snapshot_report *report)
{
    struct copied_list list = {.buffer = roots_buffer(&list.buffer_bytes)};
    list.mappings = process_last_mappings(&list.count);
    if (!copied_each_missing(&list, note_missing, report))
        return SNAPSHOT_UNREADABLE;
    bool lacks = report->lacks_blocks || report->missing_start < report->missing_end;
    return lacks ? SNAPSHOT_LACKING : SNAPSHOT_DONE;
}

static enum snapshot_state work_on_copy(struct snapshot_report *report,
                                        bool (*work)(void *argument), void *argument)
{
    follow_parent();
    if (!process_enter_copy())
        return SNAPSHOT_UNREADABLE;
    be_expendable();
    enum snapshot_state state = compare_with_parent(report);
    if (state == SNAPSHOT_DONE && !work(argument))
        state = SNAPSHOT_UNREADABLE;
    return state;
}

/* [copy alone] */
static _Noreturn void run_child(struct snapshot *snapshot, bool (*work)(void *argument),
                                void *argument)
{
    struct snapshot_report *report = snapshot->report;
    enum snapshot_state state = work_on_copy(report, work, argument);
    report->ended_ns = monotonic_ns();
    report->cpu_ns = process_ns();
    atomic_store_explicit(&report->state, (uint32_t)state, memory_order_release);
    for (;;)
        SYSCALL_1(SYS_exit_group, 0);
}

/* In the parent. */

static void unmap(struct snapshot *snapshot)
{
    if (snapshot->report)
        private_memory_unmap(snapshot->report, snapshot->mapped_bytes);
    snapshot->report = NULL;
    snapshot->result = NULL;
}

bool snapshot_prepare(struct snapshot *snapshot, size_t result_bytes)
{
    snapshot_end(snapshot);
    snapshot_kill(snapshot);
    snapshot->mapped_bytes = PAGE_BYTES + result_bytes;
    snapshot->report = private_memory_map_shared(snapshot->mapped_bytes);
    snapshot->result = snapshot->report ? (char *)snapshot->report + PAGE_BYTES : NULL;
    return snapshot->report != NULL;
}

static long make_child(void)
{
    if (roots_pages_fault() || !process_children_stay())
        return -1;
    return SYSCALL_5(SYS_clone, CLONE_FILES | CLONE_UNTRACED, 0, 0, 0, 0);
}

bool snapshot_begin(struct snapshot *snapshot, bool (*work)(void *argument), void *argument)
{
    struct snapshot_report *report = snapshot->report;
    report->begun_ns = monotonic_ns();
    atomic_store_explicit(&report->state, SNAPSHOT_RUNS, memory_order_relaxed);
    parent = SYSCALL_0(SYS_getpid);
    if (snapshot->withholds)
        withheld_begin();
    long child = make_child();
    if (child == 0)
        run_child(snapshot, work, argument);
    if (snapshot->withholds)
        withheld_end();
    uint64_t ns = monotonic_ns() - report->begun_ns;
    statistics.fork_ns += ns;
    if (ns > statistics.longest_fork_ns)
        statistics.longest_fork_ns = ns;
    if (syscall_failed(child)) {
        atomic_store_explicit(&report->state, SNAPSHOT_NO_CHILD, memory_order_relaxed);
        return false;
    }
    atomic_store(&snapshot->child, (int32_t)child);
    return true;
}

/* Leaves it to be waited for. False: it is no child of ours any more. */
static bool look_at_child(int32_t child, bool *has_ended)
{
    siginfo_t info = {0};
    long failed =
        SYSCALL_5(SYS_waitid, P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT | __WALL, NULL);
    *has_ended = info.si_pid != 0;
    return !syscall_failed(failed);
}

static bool runs_on(int32_t child)
{
    bool has_ended;
    return look_at_child(child, &has_ended) && !has_ended;
}

/* [one who reaps]. Without `waits` a child that still runs stays in `child`, where another thread
 * can find it to kill it. Returns whether the child is gone, or was reaped by the program (__WALL).
 */
static bool reap(struct snapshot *snapshot, bool waits)
{
    int32_t child = atomic_load(&snapshot->child);
    if (SYSCALL_0(SYS_getpid) != parent) /* a vfork child: its parent will */
        return child == 0;
    if (child != 0 && !waits && runs_on(child))
        return false;
    child = atomic_exchange(&snapshot->child, 0);
    while (child != 0 && SYSCALL_4(SYS_wait4, child, NULL, __WALL, NULL) == -EINTR)
        ;
    return true;
}

static enum snapshot_state state_of(const struct snapshot *snapshot)
{
    if (!snapshot->report)
        return SNAPSHOT_NONE;
    return (enum snapshot_state)atomic_load_explicit(&snapshot->report->state,
                                                     memory_order_acquire);
}

/* A child that ended without a word has died. It may have ended between the two looks. */
enum snapshot_state snapshot_look(struct snapshot *snapshot, bool ask_kernel)
{
    enum snapshot_state state = state_of(snapshot);
    if (!ask_kernel || state == SNAPSHOT_NONE || !reap(snapshot, false))
        return state;
    state = state_of(snapshot);
    return state == SNAPSHOT_RUNS ? SNAPSHOT_DIED : state;
}

/* The program may have reaped it (__WALL), and its number be another process's now. */
static void send_kill(int32_t child)
{
    bool has_ended;
    if (look_at_child(child, &has_ended))
        SYSCALL_2(SYS_kill, child, SIGKILL);
}

static void kill_child(struct snapshot *snapshot, bool waits)
{
    int32_t child = atomic_load(&snapshot->child);
    if (child == 0)
        return;
    send_kill(child);
    reap(snapshot, waits);
}

void snapshot_kill(struct snapshot *snapshot)
{
    kill_child(snapshot, true);
}

void snapshot_reap(struct snapshot *snapshot)
{
    if (!snapshot->report)
        reap(snapshot, false);
}

/* The parent's later snapshots read by themselves what this one lacked. */
static void learn(const struct snapshot_report *report)
{
    const void *start = (const void *)report->missing_start;
    size_t bytes = report->missing_end - report->missing_start;
    lacks_blocks |= report->lacks_blocks;
    if (bytes == 0)
        return;
    roots_are_not_copied(start, bytes);
    excepted_forget(start, bytes); /* it was lent, and lacking all the same */
}

/* died: by itself. */
static void count_end(const struct snapshot_report *report, enum snapshot_state state, bool died)
{
    statistics.ended[state == SNAPSHOT_RUNS ? SNAPSHOT_DIED : state]++;
    if (state == SNAPSHOT_RUNS && !died)
        return;
    failures = state == SNAPSHOT_DONE ? 0 : failures + 1;
    if (state != SNAPSHOT_DONE)
        return;
    statistics.ns += report->ended_ns - report->begun_ns;
    statistics.cpu_ns += report->cpu_ns;
    statistics.root_bytes += report->root_bytes;
}

/* Not waited for here: to give a large memory back takes the child milliseconds. */
bool snapshot_is_reaped(struct snapshot *snapshot)
{
    return reap(snapshot, false);
}

void snapshot_end(struct snapshot *snapshot)
{
    if (!snapshot->report)
        return;
    enum snapshot_state state = state_of(snapshot);
    bool died = state == SNAPSHOT_RUNS && atomic_load(&snapshot->child) == 0;
    if (state == SNAPSHOT_RUNS)
        kill_child(snapshot, false);
    else
        reap(snapshot, false);
    if (state == SNAPSHOT_LACKING)
        learn(snapshot->report);
    if (state != SNAPSHOT_NONE)
        count_end(snapshot->report, state, died);
    unmap(snapshot);
}

void snapshot_forget(struct snapshot *snapshot)
{
    atomic_store(&snapshot->child, 0);
    unmap(snapshot);
}
