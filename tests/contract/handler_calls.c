/* SPDX-License-Identifier: MIT
 *
 * handler_calls.c: a signal handler that interrupted malloc or free makes system calls that the
 * library looks into: to pin what the kernel is handed, before a sandbox, before an exec.
 *
 * None of them may take a lock that the interrupted malloc has. Each child is interrupted at one
 * instruction, each forty-first in turn, by the processor's trap flag; then it goes on. The last
 * one has no more instructions, or comes to a collection, which blocks SIGTRAP.
 * Seen: found by reading (gc and blocks:checked in prctl; gc:classic in write, where the kernel
 * refuses process_vm_readv).
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "tests/contract/contract.h"
#include "tests/unit/single_step.h"

enum { BETWEEN = 41, STEPS = 2000, HANG_SECONDS = 600 };
enum { BLOCKS = 4, SIZE = 1900, LARGE = 200000, TRAP_FLAG = 0x100 };

static int steps, last_step;
static void *blocks[BLOCKS], **message;
static int ends[2];

/* As in some containers: the library must find out by itself what it may read. By number, so that
 * no library takes it for a sandbox. */
static void refuse_to_read(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static void make_calls(void)
{
    require(write(ends[1], message, sizeof *message) == sizeof *message);
    require(execl("/nowhere", "nowhere", NULL) == -1);
    require(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
}

static void handler(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    if (++steps != last_step)
        return;
    make_calls();
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

/* The first blocks of a size, and a large one. */
static void allocate(void)
{
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = opaque(malloc(i < BLOCKS - 1 ? SIZE : LARGE));
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static _Noreturn void be_child(void)
{
    alarm(HANG_SECONDS);
    require(pipe(ends) == 0);
    if (last_step % 2)
        refuse_to_read();
    step(true);
    allocate();
    step(false);
    exercise();
    _exit(steps < last_step);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    int status = 0;
    exercise();
    message = malloc(sizeof *message);
    *message = message;
    require(sigaction(SIGTRAP, &action, NULL) == 0);
    for (last_step = BETWEEN; status == 0 && last_step < STEPS; last_step += BETWEEN) {
        pid_t child = fork();
        if (child == 0)
            be_child();
        require(child > 0 && waitpid(child, &status, 0) == child);
        bool collects = WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP;
        require(collects || (WIFEXITED(status) && WEXITSTATUS(status) <= 1));
    }
    require(last_step > 2 * BETWEEN);
    return 0;
}
