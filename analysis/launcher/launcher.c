/* SPDX-License-Identifier: MIT
 *
 * launcher.c: runs one command and reports what that very run cost.
 *
 *     allotrope-launch --report run.json --env LD_PRELOAD=/lib/heap.so -- gawk -f fill.awk
 *
 * A process starts life with its parent's memory, and the kernel counts that into its peak
 * (exec_mmap carries the old address space's high-water mark over). A Python of 200 MB would
 * show in every figure; so a program of some hundred kilobytes stands between. It is linked
 * statically, so that an LD_PRELOAD meant for others never loads anything into it.
 *
 *     caller -> allotrope-launch -> command -> its children     own process group
 *                 ^  subreaper: what is orphaned comes here, is waited for and counted
 *
 * CPU time, peak and faults come from wait4, of the command and of every descendant that was
 * waited for, by its parent or by us. Memory of the whole tree comes from a cgroup of its own
 * where there can be one, else from sampling. How many processes there are comes from looking.
 *
 * A server's run (--whole-tree) ends when nothing of its tree is left, in whatever process group:
 * a daemon leaves its parent's, PostgreSQL gives every child a session of its own. It also ends
 * with whoever started us.
 *
 * A caller that wants to see each process (--watch) is told by watch.c; such a run is for looking,
 * its times are not to be used.
 *
 * Whoever stops us stops the command: INT, TERM, HUP, QUIT go on to its process group, then
 * KILL. What our caller ignores stops neither; but TERM always does. When the command shares our
 * terminal it gets it, job control included.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/launcher/memory_cgroup.h"
#include "analysis/launcher/plan.h"
#include "analysis/launcher/process_tree.h"
#include "analysis/launcher/report.h"
#include "analysis/launcher/watch.h"
#include "trace/base/flush_all.h"

enum {
    /* How long processes that outlive the command may finish by themselves. */
    LINGER_NANOSECONDS = 500 * 1000 * 1000,
    /* A command that is over by then is not disturbed by a look at it. */
    FIRST_LOOK_NANOSECONDS = 10 * 1000 * 1000,
    /* What is left after so many KILLs, a second apart, is not ours to end: a zombie whose parent
     * left the group and does not wait for it, or a process of another user. */
    MOST_KILLS = 5,
};

/* The run while it lasts. */
struct run {
    const struct plan *plan;
    struct outcome *outcome;
    struct watch watch;
    pid_t group; /* the command's pid, and its process group's */
    bool ended;  /* the command itself was waited for */
    bool owns_terminal;
    bool watched;
    long long paused;       /* nanoseconds that job control kept everything stopped */
    long long terminate_at; /* when TERM is due, 0: never */
    long long kill_at;      /* when KILL is due, 0: never */
    int kills;              /* KILLs that were sent since the command ended */
};

/* Applies the plan's redirections; returns 0 or an errno. Between vfork and exec. */
static int redirect(const struct plan *plan)
{
    for (int target = 0; target < 3; target++) {
        if (!plan->redirects[target])
            continue;
        int flags = target == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
        int file = open(plan->redirects[target], flags, 0666);
        if (file < 0)
            return errno;
        if (file != target) {
            dup2(file, target);
            close(file);
        }
    }
    return 0;
}

/* Several launchers' commands begin at the same moment: each says that it is ready, and waits.
 * Who asked may have ended; then there is nothing to begin. Returns 0 or an errno. */
static int await_gate(int gate)
{
    char go = 0;
    if (send(gate, &go, 1, MSG_NOSIGNAL) != 1 || recv(gate, &go, 1, 0) != 1)
        return ECANCELED;
    return 0;
}

/* Everything the new process does before it becomes the command. It shares our memory (vfork),
 * so that none of our pages count as its own; but a watched one is a copy (fork), for it waits
 * for us. The signals that we watch are still blocked. */
__attribute__((noreturn)) static void become_command(struct run *run,
                                                     const struct memory_cgroup *cgroup,
                                                     const sigset_t *signals)
{
    struct outcome *outcome = run->outcome;
    char opened;
    cpu_set_t processors = run->plan->processors;
    bool has_processors =
        run->plan->has_processors ||
        (cgroup->processes >= 0 && sched_getaffinity(0, sizeof processors, &processors) == 0);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (run->plan->fixed_addresses)
        personality(ADDR_NO_RANDOMIZE); /* a container may forbid it */
    if (run->owns_terminal)
        tcsetpgrp(STDIN_FILENO, getpid());
    if (cgroup->processes >= 0 && !memory_cgroup_enter(cgroup))
        outcome->cgroup_peak = -1;
    if (has_processors) /* before Linux 6.2 a cgroup gives all of its own to who enters */
        sched_setaffinity(0, sizeof processors, &processors);
    if (cgroup->processes >= 0)
        outcome->started = monotonic_nanoseconds(); /* the kernel may take its time to move us */
    outcome->exec_error = redirect(run->plan);
    outcome->exec_stage = "redirect";
    if (run->watch.gate >= 0 && read(run->watch.gate, &opened, 1) < 0)
        _exit(STATUS_NOT_FOUND);
    if (outcome->exec_error == 0 && run->plan->gate >= 0) {
        outcome->exec_error = await_gate(run->plan->gate);
        outcome->exec_stage = "gate";
    }
    if (outcome->exec_error == 0) {
        sigprocmask(SIG_SETMASK, signals, NULL);
        execvp(run->plan->command[0], run->plan->command);
        outcome->exec_error = errno;
        outcome->exec_stage = "exec";
    }
    _exit(STATUS_NOT_FOUND);
}

/* Where there are processors beside the command's, we look at it from there. */
static void keep_off(const cpu_set_t *processors)
{
    cpu_set_t ours;
    if (sched_getaffinity(0, sizeof ours, &ours) != 0)
        return;
    for (size_t one = 0; one < CPU_SETSIZE; one++)
        if (CPU_ISSET(one, processors))
            CPU_CLR(one, &ours);
    if (CPU_COUNT(&ours) > 0)
        sched_setaffinity(0, sizeof ours, &ours);
}

/* As fork(). The child's gate is the end to read from, ours the end to close. */
static pid_t fork_behind_gate(struct run *run)
{
    int gate[2];
    run->watch.caller = run->plan->watch;
    if (fcntl(run->watch.caller, F_SETFD, FD_CLOEXEC) != 0 || pipe2(gate, O_CLOEXEC) != 0)
        return -1;
    pid_t child = fork();
    run->watch.gate = child == 0 ? gate[0] : gate[1];
    close(child == 0 ? gate[1] : gate[0]);
    return child;
}

static void start(struct run *run, const struct memory_cgroup *cgroup, const sigset_t *signals)
{
    run->owns_terminal =
        !run->plan->redirects[0] && isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
    if (run->plan->has_processors)
        keep_off(&run->plan->processors);
    if (run->plan->gate >= 0 && fcntl(run->plan->gate, F_SETFD, FD_CLOEXEC) != 0)
        fail("--gate: %d is not open", run->plan->gate);
    run->outcome->started = monotonic_nanoseconds();
    pid_t child = run->plan->watch >= 0 ? fork_behind_gate(run) : vfork();
    if (child == 0)
        become_command(run, cgroup, signals);
    if (child < 0)
        fail("cannot start a process: %s", strerror(errno));
    if (run->plan->gate >= 0)
        close(run->plan->gate);
    if (run->plan->watch >= 0)
        run->watched = watch_attach(&run->watch, child);
    run->group = child;
    run->outcome->pid = child;
    if (run->plan->timeout_nanoseconds > 0)
        run->terminate_at = run->outcome->started + run->plan->timeout_nanoseconds;
    run->outcome->tree.next_nanoseconds = run->outcome->started + FIRST_LOOK_NANOSECONDS;
}

static void add_time(struct timeval *sum, const struct timeval *more)
{
    sum->tv_sec += more->tv_sec;
    sum->tv_usec += more->tv_usec;
    if (sum->tv_usec >= 1000000) {
        sum->tv_usec -= 1000000;
        sum->tv_sec++;
    }
}

static void add_usage(struct rusage *sum, const struct rusage *more)
{
    add_time(&sum->ru_utime, &more->ru_utime);
    add_time(&sum->ru_stime, &more->ru_stime);
    sum->ru_minflt += more->ru_minflt;
    sum->ru_majflt += more->ru_majflt;
    sum->ru_nvcsw += more->ru_nvcsw;
    sum->ru_nivcsw += more->ru_nivcsw;
    if (more->ru_maxrss > sum->ru_maxrss)
        sum->ru_maxrss = more->ru_maxrss;
}

/* Stops ourselves, as a shell expects of a job, until we are continued; then the command goes
 * on too. The time between does not count. */
static void pause_with_command(struct run *run)
{
    long long stopped = monotonic_nanoseconds();
    if (run->owns_terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    raise(SIGSTOP);
    if (run->owns_terminal)
        tcsetpgrp(STDIN_FILENO, run->group);
    kill(-run->group, SIGCONT);
    long long slept = monotonic_nanoseconds() - stopped;
    run->paused += slept;
    if (run->terminate_at != 0)
        run->terminate_at += slept;
}

/* Waits for everything that has ended. */
static void reap(struct run *run)
{
    int status = 0;
    struct rusage usage;
    int flags = WNOHANG | (run->owns_terminal ? WUNTRACED : 0) | (run->watched ? __WALL : 0);
    for (pid_t pid; (pid = wait4(-1, &status, flags, &usage)) > 0;) {
        if (run->watched && WIFSTOPPED(status)) {
            watch_stopped(&run->watch, pid, status);
            continue;
        }
        if (WIFSTOPPED(status)) {
            if (pid == run->group)
                pause_with_command(run);
            continue;
        }
        add_usage(&run->outcome->usage, &usage);
        if (pid != run->group)
            continue;
        long long now = monotonic_nanoseconds();
        run->ended = true;
        run->outcome->status = status;
        run->outcome->wall_nanoseconds = now - run->outcome->started - run->paused;
        /* A server may go into the background: its tree lives until we are told to stop it. */
        if (!run->plan->whole_tree)
            run->terminate_at = now + LINGER_NANOSECONDS;
    }
}

static bool something_is_left(const struct run *run)
{
    if (kill(-run->group, 0) == 0 || errno == EPERM)
        return true;
    return run->plan->whole_tree && process_tree_signal(0);
}

/* Signals the group; the rest of the tree as well when its head is gone, or when it is KILL. */
static void signal_run(const struct run *run, int signal)
{
    kill(-run->group, signal);
    if (run->plan->whole_tree && (run->ended || signal == SIGKILL))
        process_tree_signal(signal);
}

/* Sends a signal to the whole group, waking what is stopped, and settles when KILL follows. */
static void stop_group(struct run *run, int signal)
{
    signal_run(run, signal);
    kill(-run->group, SIGCONT);
    run->terminate_at = 0;
    if (run->kill_at == 0)
        run->kill_at = monotonic_nanoseconds() + run->plan->grace_nanoseconds;
}

static void handle_deadlines(struct run *run, long long now)
{
    if (run->terminate_at != 0 && now >= run->terminate_at) {
        if (run->ended)
            run->outcome->leftovers = true;
        else
            run->outcome->timed_out = true;
        stop_group(run, SIGTERM);
    }
    if (run->kill_at != 0 && now >= run->kill_at) {
        run->outcome->killed = true;
        signal_run(run, SIGKILL);
        run->kills += run->ended;
        run->kill_at = now + NANOSECONDS; /* again, should a fork have slipped through */
    }
}

static void handle_signals(struct run *run, int signals)
{
    struct signalfd_siginfo signal;
    while (read(signals, &signal, sizeof signal) == (ssize_t)sizeof signal) {
        if (signal.ssi_signo == SIGCHLD)
            continue;
        if (signal.ssi_signo == SIGTSTP) {
            kill(-run->group, SIGTSTP);
            pause_with_command(run);
            continue;
        }
        run->outcome->interrupted_by = (int)signal.ssi_signo;
        stop_group(run, (int)signal.ssi_signo);
    }
}

/* Is the tree looked at now? A server's is while anything of it lives: the process that we started
 * may have gone into the background and left the work to a child. */
static bool is_looked_at(const struct run *run)
{
    return !run->ended || run->plan->whole_tree;
}

/* A cgroup knows the memory, but not whether a single process had it. */
static bool is_weighed(const struct run *run)
{
    return run->outcome->cgroup_peak < 0 || run->plan->samples;
}

static int milliseconds_until(long long now, const struct run *run)
{
    long long next = is_looked_at(run) ? run->outcome->tree.next_nanoseconds : now + NANOSECONDS;
    if (run->terminate_at != 0 && run->terminate_at < next)
        next = run->terminate_at;
    if (run->kill_at != 0 && run->kill_at < next)
        next = run->kill_at;
    if (run->ended && next > now + NANOSECONDS / 100)
        next = now + NANOSECONDS / 100; /* a leftover that is not our child ends unannounced */
    return next <= now ? 0 : (int)((next - now + 999999) / 1000000);
}

/* Follows the run to its end: the command has exited and nothing of its group is left that we
 * could end. */
static void follow(struct run *run, int signals)
{
    while (!run->ended || (run->kills < MOST_KILLS && something_is_left(run))) {
        long long now = monotonic_nanoseconds();
        struct pollfd events = {.fd = signals, .events = POLLIN};
        if (poll(&events, 1, milliseconds_until(now, run)) > 0)
            handle_signals(run, signals);
        reap(run);
        now = monotonic_nanoseconds();
        handle_deadlines(run, now);
        if (is_looked_at(run))
            process_tree_look(&run->outcome->tree, now, is_weighed(run));
    }
}

/* Shared with the child, which tells in it why it could not become the command. */
static struct outcome *new_outcome(void)
{
    struct outcome *outcome =
        mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcome == MAP_FAILED)
        fail("no memory");
    outcome->tree.peak_bytes = -1;
    return outcome;
}

/* By whoever started us: nohup does it to HUP, a shell to INT and QUIT of a job in the
 * background. */
static bool is_ignored(int signal)
{
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Blocks the signals that we act on. Returns a descriptor that gives them.
 * before: becomes the signals that were blocked until now.
 * What is ignored stays so, for us and for the command; once blocked, it would come to us all the
 * same. CHLD and TERM come in any case: by TERM our caller ends us, and its own end is told. */
static int watch_signals(sigset_t *before)
{
    const int always[] = {SIGCHLD, SIGTERM};
    const int unless_ignored[] = {SIGINT, SIGHUP, SIGQUIT, SIGTSTP};
    sigset_t ours;
    sigemptyset(&ours);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        sigaddset(&ours, always[i]);
    for (size_t i = 0; i < sizeof unless_ignored / sizeof *unless_ignored; i++)
        if (!is_ignored(unless_ignored[i]))
            sigaddset(&ours, unless_ignored[i]);
    int signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        fail("cannot watch for signals: %s", strerror(errno));
    sigaddset(&ours, SIGTTOU); /* so that we may take the terminal back */
    sigprocmask(SIG_BLOCK, &ours, before);
    signal(SIGCHLD, SIG_DFL); /* ignored, nothing could be waited for */
    return signals;
}

static struct outcome *launch(const struct plan *plan)
{
    struct outcome *outcome = new_outcome();
    struct run run = {.plan = plan, .outcome = outcome, .watch = {.caller = -1, .gate = -1}};
    struct memory_cgroup cgroup;
    sigset_t before;
    int signals = watch_signals(&before);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* who started us may be killed */

    if (plan->samples && (outcome->tree.samples = fopen(plan->samples, "we")) == NULL)
        fail("--samples: cannot write %s: %s", plan->samples, strerror(errno));
    if (!memory_cgroup_create(&cgroup))
        outcome->cgroup_peak = -1;
    start(&run, &cgroup, &before);
    follow(&run, signals);
    if (outcome->cgroup_peak >= 0)
        outcome->cgroup_peak = memory_cgroup_peak(&cgroup);
    memory_cgroup_remove(&cgroup);
    if (run.owns_terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    close(signals);
    if (outcome->tree.samples)
        fclose(outcome->tree.samples);
    return outcome;
}

static int exit_status(const struct outcome *outcome)
{
    if (outcome->exec_error != 0)
        return strcmp(outcome->exec_stage, "exec") != 0 ? STATUS_USAGE
               : outcome->exec_error == ENOENT          ? STATUS_NOT_FOUND
                                                        : STATUS_CANNOT_EXECUTE;
    if (outcome->timed_out)
        return STATUS_TIMED_OUT;
    return WIFEXITED(outcome->status) ? WEXITSTATUS(outcome->status)
                                      : STATUS_SIGNALLED + WTERMSIG(outcome->status);
}

int main(int argc, char **argv)
{
    struct plan plan = plan_parse(argc, argv);
    FILE *report = stderr;
    if (plan.report && (report = fopen(plan.report, "we")) == NULL)
        fail("--report: cannot write %s: %s", plan.report, strerror(errno));
    struct outcome *outcome = launch(&plan);
    report_print(report, outcome);
    if (flush_all(report) < 0)
        fail("--report: cannot write %s: %s", plan.report, strerror(errno));
    return exit_status(outcome);
}
