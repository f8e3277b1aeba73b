/* SPDX-License-Identifier: MIT
 *
 * inject.c: runs a program in which chosen system calls of ours fail.
 *
 *   inject OBJECT CALL ERRNO FIRST COUNT PROGRAM [ARGUMENT...]
 *
 * Of the system calls numbered CALL that are made by code of OBJECT (an executable or a library),
 * counted over all threads and forked children, those from the FIRST on, COUNT of them (0: all
 * that follow), are not made but return -ERRNO. FIRST 0 lets all pass. The same calls made by
 * libc or the program are left alone, so that what is tried is the allocator and not they; so are
 * the wakes of a futex.
 *
 * Ends as the program does (a signal as 128 and its number), after a line on standard error:
 *
 *   inject: SEEN calls, FAILED failed
 *
 * Needs nothing in the code under test: a seccomp filter hands those calls to the tracer, which
 * looks where they come from.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    char object[PATH_MAX];
    long call, error;
    unsigned long first, count, seen, failed;
} plan;

enum { MOST_TASKS = 65536 };

/* A thread, by its number: its address space keeps its code where it is until the next exec. */
static struct task {
    bool known;
    unsigned long start, end; /* of the object's code; 0: not looked for yet */
} tasks[MOST_TASKS];

static struct task *task_of(pid_t thread)
{
    return &tasks[(unsigned)thread % MOST_TASKS];
}

static _Noreturn void give_up(const char *what)
{
    perror(what);
    exit(3);
}

static void trace_call(unsigned number)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        give_up("seccomp");
}

static _Noreturn void be_program(char **words)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        give_up("ptrace");
    raise(SIGSTOP);
    trace_call((unsigned)plan.call);
    execvp(words[0], words);
    give_up(words[0]);
}

/* Where the object's code is mapped in the process; it may not be there yet. */
static void find_code(pid_t thread, struct task *task)
{
    char name[64], line[PATH_MAX + 128];
    snprintf(name, sizeof name, "/proc/%d/maps", (int)thread);
    FILE *maps = fopen(name, "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        char mode[5];
        int path = 0;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %n", &start, &end, mode, &path) < 3 ||
            mode[2] != 'x' || path == 0 || strcmp(line + path, plan.object) != 0)
            continue;
        task->start = start;
        task->end = end;
    }
    if (maps)
        fclose(maps);
}

/* A wake fails for an address that is none, and in no other way; who sleeps would sleep on. */
static bool can_fail(const struct user_regs_struct *registers)
{
    return plan.call != SYS_futex || (registers->rsi & FUTEX_CMD_MASK) != FUTEX_WAKE;
}

static bool is_chosen(void)
{
    unsigned long number = ++plan.seen;
    return plan.first > 0 && number >= plan.first &&
           (plan.count == 0 || number - plan.first < plan.count);
}

static void on_call(pid_t thread)
{
    struct task *task = task_of(thread);
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread, NULL, &registers) != 0)
        return; /* killed meanwhile */
    if (task->end == 0)
        find_code(thread, task);
    if (registers.rip < task->start || registers.rip >= task->end || !can_fail(&registers) ||
        !is_chosen())
        return;
    plan.failed++;
    registers.orig_rax = (unsigned long)-1;
    registers.rax = (unsigned long)-plan.error;
    ptrace(PTRACE_SETREGS, thread, NULL, &registers);
}

/* Returns the signal to go on with. */
static int on_stop(pid_t thread, int status)
{
    struct task *task = task_of(thread);
    int number = WSTOPSIG(status), event = status >> 16;
    if (event == PTRACE_EVENT_SECCOMP)
        on_call(thread);
    if (event == PTRACE_EVENT_EXEC)
        task->start = task->end = 0;
    if (!task->known && number == SIGSTOP) { /* how a new thread or child begins */
        *task = (struct task){.known = true};
        return 0;
    }
    return event != 0 || number == SIGTRAP ? 0 : number;
}

static int follow(pid_t program)
{
    int status, result = 3;
    pid_t thread;
    while ((thread = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
        if (thread <= 0)
            continue;
        if (WIFSTOPPED(status)) {
            ptrace(PTRACE_CONT, thread, NULL, on_stop(thread, status));
            continue;
        }
        task_of(thread)->known = false;
        if (thread == program)
            result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return result;
}

static unsigned long number_of(const char *word)
{
    char *end;
    unsigned long number = strtoul(word, &end, 10);
    if (*end || end == word) {
        fprintf(stderr, "inject: '%s' is not a number\n", word);
        exit(2);
    }
    return number;
}

int main(int count, char **words)
{
    if (count < 7) {
        fprintf(stderr, "usage: inject OBJECT CALL ERRNO FIRST COUNT PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    if (!realpath(words[1], plan.object))
        give_up(words[1]);
    plan.call = (long)number_of(words[2]);
    plan.error = (long)number_of(words[3]);
    plan.first = number_of(words[4]);
    plan.count = number_of(words[5]);
    int status;
    pid_t program = fork();
    if (program == 0)
        be_program(words + 6);
    if (program < 0 || waitpid(program, &status, 0) != program || !WIFSTOPPED(status))
        give_up("fork");
    task_of(program)->known = true;
    if (ptrace(PTRACE_SETOPTIONS, program, NULL,
               PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) != 0 ||
        ptrace(PTRACE_CONT, program, NULL, 0) != 0)
        give_up("ptrace");
    int result = follow(program);
    fprintf(stderr, "inject: %lu calls, %lu failed\n", plan.seen, plan.failed);
    return result;
}
