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
 * where there can be one, else from sampling.
 *
 * Whoever stops us stops the command: INT, TERM, HUP, QUIT go on to its process group, then
 * KILL. When the command shares our terminal it gets it, job control included.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/launcher/memory_cgroup.h"
#include "analysis/launcher/process_tree.h"
#include "trace/base/json.h"

enum {
    NANOSECONDS = 1000 * 1000 * 1000,
    /* How long processes that outlive the command may finish by themselves. */
    LINGER_NANOSECONDS = 500 * 1000 * 1000,
    /* A command that is over by then is not disturbed by a look at it. */
    FIRST_LOOK_NANOSECONDS = 10 * 1000 * 1000,
    GRACE_SECONDS = 2,
    STATUS_TIMED_OUT = 124, /* as timeout(1) has it */
    STATUS_USAGE = 125,
    STATUS_CANNOT_EXECUTE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNALLED = 128,
};

struct plan {
    char **command;
    const char *report;            /* file for the report; NULL: descriptor 2 */
    const char *redirects[3];      /* files for descriptors 0, 1, 2, or NULL */
    long long timeout_nanoseconds; /* 0: none */
    long long grace_nanoseconds;   /* between TERM and KILL */
    bool fixed_addresses;          /* no address space randomisation */
};

struct outcome {
    pid_t pid;           /* of the command, and of its process group */
    struct rusage usage; /* summed over everything that was waited for */
    long long wall_nanoseconds;
    int status;             /* as wait4 gave it; only if exec_error is 0 */
    int exec_error;         /* errno of what kept the command from running */
    const char *exec_stage; /* ... and what that was */
    int interrupted_by;     /* the signal that stopped us, or 0 */
    bool timed_out;
    bool leftovers;        /* processes of the group had to be killed after the command */
    long long cgroup_peak; /* -1: no cgroup */
    struct process_tree tree;
};

/* The run while it lasts. */
struct run {
    const struct plan *plan;
    struct outcome *outcome;
    pid_t group; /* the command's pid, and its process group's */
    bool ended;  /* the command itself was waited for */
    bool owns_terminal;
    long long started;
    long long paused;       /* nanoseconds that job control kept everything stopped */
    long long terminate_at; /* when TERM is due, 0: never */
    long long kill_at;      /* when KILL is due, 0: never */
};

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("allotrope-launch: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(STATUS_USAGE);
}

static long long parse_seconds(const char *option, const char *text)
{
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds > 0 && seconds < 1e9))
        fail("%s: '%s' is not a number of seconds above 0", option, text);
    return (long long)(seconds * NANOSECONDS);
}

/* Settings reach the command through our own environment, which we ourselves read no more. */
static void set_environment(const char *setting)
{
    if (!strchr(setting, '=') || *setting == '=')
        fail("--env: '%s' is not of the form NAME=VALUE", setting);
    if (putenv((char *)setting) != 0)
        fail("--env: no memory");
}

static void print_usage(void)
{
    puts("usage: allotrope-launch [OPTION]... -- COMMAND [ARGUMENT]...\n"
         "Runs COMMAND and reports as JSON what that run cost.\n\n"
         "  --report FILE       write the report there (default: standard error)\n"
         "  --env NAME=VALUE    set in COMMAND's environment; repeatable\n"
         "  --unset NAME        remove from COMMAND's environment; repeatable\n"
         "  --stdin FILE, --stdout FILE, --stderr FILE\n"
         "                      redirect COMMAND\n"
         "  --fixed-addresses   the kernel puts nothing at random (where it may be told so)\n"
         "  --timeout SECONDS   stop COMMAND's process group after that long\n"
         "  --grace SECONDS     between TERM and KILL (default 2)");
}

static struct plan parse_arguments(int argc, char **argv)
{
    enum { REPORT = 256, ENV, UNSET, TIMEOUT, GRACE, HELP, STDIN, STDOUT, STDERR, FIXED };
    static const struct option options[] = {{"report", required_argument, NULL, REPORT},
                                            {"env", required_argument, NULL, ENV},
                                            {"unset", required_argument, NULL, UNSET},
                                            {"timeout", required_argument, NULL, TIMEOUT},
                                            {"grace", required_argument, NULL, GRACE},
                                            {"help", no_argument, NULL, HELP},
                                            {"stdin", required_argument, NULL, STDIN},
                                            {"stdout", required_argument, NULL, STDOUT},
                                            {"stderr", required_argument, NULL, STDERR},
                                            {"fixed-addresses", no_argument, NULL, FIXED},
                                            {0}};
    struct plan plan = {.grace_nanoseconds = (long long)GRACE_SECONDS * NANOSECONDS};
    for (int choice; (choice = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
        switch (choice) {
        case REPORT:
            plan.report = optarg;
            break;
        case ENV:
            set_environment(optarg);
            break;
        case UNSET:
            unsetenv(optarg);
            break;
        case TIMEOUT:
            plan.timeout_nanoseconds = parse_seconds("--timeout", optarg);
            break;
        case GRACE:
            plan.grace_nanoseconds = parse_seconds("--grace", optarg);
            break;
        case STDIN:
        case STDOUT:
        case STDERR:
            plan.redirects[choice - STDIN] = optarg;
            break;
        case FIXED:
            plan.fixed_addresses = true;
            break;
        case HELP:
            print_usage();
            exit(0);
        default:
            exit(STATUS_USAGE); /* getopt has named the option */
        }
    }
    if (!argv[optind])
        fail("no command given; see --help");
    plan.command = argv + optind;
    return plan;
}

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

/* Everything the new process does before it becomes the command. It shares our memory (vfork),
 * so that none of our pages count as its own; the signals that we watch are still blocked. */
__attribute__((noreturn)) static void become_command(struct run *run,
                                                     const struct memory_cgroup *cgroup,
                                                     const sigset_t *signals)
{
    struct outcome *outcome = run->outcome;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (run->plan->fixed_addresses)
        personality(ADDR_NO_RANDOMIZE); /* a container may forbid it */
    if (run->owns_terminal)
        tcsetpgrp(STDIN_FILENO, getpid());
    if (cgroup->processes >= 0 && !memory_cgroup_enter(cgroup))
        outcome->cgroup_peak = -1;
    outcome->exec_error = redirect(run->plan);
    outcome->exec_stage = "redirect";
    if (outcome->exec_error == 0) {
        sigprocmask(SIG_SETMASK, signals, NULL);
        execvp(run->plan->command[0], run->plan->command);
        outcome->exec_error = errno;
        outcome->exec_stage = "exec";
    }
    _exit(STATUS_NOT_FOUND);
}

static void start(struct run *run, const struct memory_cgroup *cgroup, const sigset_t *signals)
{
    run->owns_terminal =
        !run->plan->redirects[0] && isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
    run->started = monotonic_nanoseconds();
    if (run->plan->timeout_nanoseconds > 0)
        run->terminate_at = run->started + run->plan->timeout_nanoseconds;
    pid_t child = vfork();
    if (child == 0)
        become_command(run, cgroup, signals);
    if (child < 0)
        fail("cannot start a process: %s", strerror(errno));
    run->group = child;
    run->outcome->pid = child;
    run->outcome->tree.next_nanoseconds = run->started + FIRST_LOOK_NANOSECONDS;
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
    int flags = WNOHANG | (run->owns_terminal ? WUNTRACED : 0);
    for (pid_t pid; (pid = wait4(-1, &status, flags, &usage)) > 0;) {
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
        run->outcome->wall_nanoseconds = now - run->started - run->paused;
        run->terminate_at = now + LINGER_NANOSECONDS;
    }
}

static bool group_is_alive(const struct run *run)
{
    return kill(-run->group, 0) == 0 || errno == EPERM;
}

/* Sends a signal to the whole group, waking what is stopped, and settles when KILL follows. */
static void stop_group(struct run *run, int signal)
{
    kill(-run->group, signal);
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
        kill(-run->group, SIGKILL);
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

static int milliseconds_until(long long now, const struct run *run)
{
    long long next =
        run->outcome->cgroup_peak >= 0 ? now + NANOSECONDS : run->outcome->tree.next_nanoseconds;
    if (run->terminate_at != 0 && run->terminate_at < next)
        next = run->terminate_at;
    if (run->kill_at != 0 && run->kill_at < next)
        next = run->kill_at;
    if (run->ended && next > now + NANOSECONDS / 100)
        next = now + NANOSECONDS / 100; /* a leftover that is not our child ends unannounced */
    return next <= now ? 0 : (int)((next - now + 999999) / 1000000);
}

/* Follows the run to its end: the command has exited and nothing of its group is left. */
static void follow(struct run *run, int signals)
{
    while (!run->ended || group_is_alive(run)) {
        long long now = monotonic_nanoseconds();
        struct pollfd events = {.fd = signals, .events = POLLIN};
        if (poll(&events, 1, milliseconds_until(now, run)) > 0)
            handle_signals(run, signals);
        reap(run);
        now = monotonic_nanoseconds();
        handle_deadlines(run, now);
        if (!run->ended && run->outcome->cgroup_peak < 0)
            process_tree_look(&run->outcome->tree, now);
    }
}

static struct outcome launch(const struct plan *plan)
{
    struct outcome outcome = {.cgroup_peak = 0, .tree = {.peak_bytes = -1}};
    struct run run = {.plan = plan, .outcome = &outcome};
    struct memory_cgroup cgroup;
    sigset_t ours;
    sigset_t before;
    sigemptyset(&ours);
    const int handled[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++)
        sigaddset(&ours, handled[i]);
    int signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        fail("cannot watch for signals: %s", strerror(errno));
    sigaddset(&ours, SIGTTOU); /* so that we may take the terminal back */
    sigprocmask(SIG_BLOCK, &ours, &before);
    signal(SIGCHLD, SIG_DFL); /* ignored, nothing could be waited for */
    prctl(PR_SET_CHILD_SUBREAPER, 1);

    if (!memory_cgroup_create(&cgroup))
        outcome.cgroup_peak = -1;
    start(&run, &cgroup, &before);
    follow(&run, signals);
    if (outcome.cgroup_peak >= 0)
        outcome.cgroup_peak = memory_cgroup_peak(&cgroup);
    memory_cgroup_remove(&cgroup);
    if (run.owns_terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    close(signals);
    return outcome;
}

static void put_if(struct json *json, const char *key, bool known, long long value)
{
    if (known)
        json_integer(json, key, value);
    else
        json_null(json, key);
}

static long long microseconds(struct timeval time)
{
    return time.tv_sec * 1000000LL + time.tv_usec;
}

static void put_error(struct json *json, const struct outcome *outcome)
{
    if (outcome->exec_error == 0) {
        json_null(json, "error");
        return;
    }
    json_open(json, "error");
    json_text(json, "stage", outcome->exec_stage);
    json_integer(json, "errno", outcome->exec_error);
    json_text(json, "message", strerror(outcome->exec_error));
    json_close(json);
}

static void put_tree_peak(struct json *json, const struct outcome *outcome)
{
    bool by_cgroup = outcome->cgroup_peak > 0;
    bool by_samples = !by_cgroup && outcome->tree.peak_bytes >= 0;
    json_open(json, "tree_peak");
    put_if(json, "bytes", by_cgroup || by_samples,
           by_cgroup ? outcome->cgroup_peak : outcome->tree.peak_bytes);
    json_text(json, "method", by_cgroup ? "memory.peak" : by_samples ? "pss-sampled" : NULL);
    json_close(json);
}

static void print_report(FILE *to, const struct outcome *outcome)
{
    const struct rusage *usage = &outcome->usage;
    struct json json = {.output = to};
    bool ran = outcome->exec_error == 0;
    json_open(&json, NULL);
    json_text(&json, "schema", "allotrope.launch/1");
    json_integer(&json, "pid", outcome->pid);
    put_if(&json, "exit_status", ran && WIFEXITED(outcome->status), WEXITSTATUS(outcome->status));
    put_if(&json, "signal", ran && WIFSIGNALED(outcome->status), WTERMSIG(outcome->status));
    put_error(&json, outcome);
    json_bool(&json, "timed_out", outcome->timed_out);
    json_bool(&json, "leftovers", outcome->leftovers);
    put_if(&json, "interrupted_by", outcome->interrupted_by != 0, outcome->interrupted_by);
    put_if(&json, "wall_ns", ran, outcome->wall_nanoseconds);
    put_if(&json, "user_us", ran, microseconds(usage->ru_utime));
    put_if(&json, "system_us", ran, microseconds(usage->ru_stime));
    put_if(&json, "peak_rss_bytes", ran, usage->ru_maxrss * 1024LL);
    put_if(&json, "minor_faults", ran, usage->ru_minflt);
    put_if(&json, "major_faults", ran, usage->ru_majflt);
    put_if(&json, "voluntary_switches", ran, usage->ru_nvcsw);
    put_if(&json, "involuntary_switches", ran, usage->ru_nivcsw);
    put_if(&json, "processes", outcome->tree.most_processes > 0, outcome->tree.most_processes);
    put_tree_peak(&json, outcome);
    json_close(&json);
    fputc('\n', to);
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
    struct plan plan = parse_arguments(argc, argv);
    FILE *report = stderr;
    if (plan.report && (report = fopen(plan.report, "we")) == NULL)
        fail("--report: cannot write %s: %s", plan.report, strerror(errno));
    struct outcome outcome = launch(&plan);
    print_report(report, &outcome);
    if (fflush(report) != 0 || ferror(report))
        fail("--report: cannot write %s: %s", plan.report, strerror(errno));
    return exit_status(&outcome);
}
