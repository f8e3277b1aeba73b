/* SPDX-License-Identifier: MIT
 *
 * fork_interrupted.c: a signal handler allocates and frees while its thread is inside fork.
 *
 * fork may be called in a signal handler, so a handler that interrupts it alone may call malloc.
 * The processor's trap flag brings SIGTRAP after each instruction of fork, in the parent and in the
 * child. Its handler sends SIGUSR1 to its own thread, whose handler allocates and frees: at once,
 * or as soon as that signal is not blocked any more. Between two forks, and in the child, both
 * signals are no more blocked than before. With the argument "threads" others are at work in the
 * heap meanwhile (where glibc's own fork may wait for ever). From glibc 2.41 on fork blocks all
 * signals, and SIGTRAP would end the process; so the handler sets the mask in the kernel's place,
 * without SIGTRAP.
 * Seen: an allocator that aborted when it met a lock of its own thread's fork.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "tests/contract/contract.h"
#include "tests/unit/single_step.h"

/* Every instruction but of what was put off until fork is over, which may be long. */
enum { FORKS = 6, STRIDE = 6, STEPS = 2500, KEPT = 64, THREADS = 2, TRAP_FLAG = 0x100 };

static const size_t sizes[] = {24, 1900, 100, 40000, 24, 600, 500000, 100};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int forks, steps, handled;
static char *kept[KEPT];
static _Atomic bool stop;

static void allocate(int number)
{
    int place = handled % KEPT;
    size_t size = sizes[handled % SIZES];
    (void)number;
    handled++;
    if (kept[place])
        require(is_filled(kept[place], 24));
    free(kept[place]);
    kept[place] = malloc(size);
    require(kept[place] != NULL);
    fill(kept[place], 24);
}

static bool is_about_to_set_mask(const greg_t *registers)
{
    const unsigned char *next = (const unsigned char *)registers[REG_RIP];
    return next[0] == 0x0F && next[1] == 0x05 && registers[REG_RAX] == SYS_rt_sigprocmask &&
           registers[REG_RDI] != SIG_UNBLOCK && registers[REG_RSI] != 0;
}

static void set_mask(ucontext_t *context)
{
    greg_t *registers = context->uc_mcontext.gregs;
    uint64_t mask, set = *(const uint64_t *)registers[REG_RSI];
    memcpy(&mask, &context->uc_sigmask, sizeof mask);
    if (registers[REG_RDX] != 0)
        *(uint64_t *)registers[REG_RDX] = mask;
    mask = registers[REG_RDI] == SIG_BLOCK ? mask | set : set;
    mask &= ~(UINT64_C(1) << (SIGTRAP - 1));
    memcpy(&context->uc_sigmask, &mask, sizeof mask);
    registers[REG_RAX] = 0;
    registers[REG_RIP] += 2;
}

static void send_signal(int number, siginfo_t *information, void *context)
{
    (void)number;
    (void)information;
    if (is_about_to_set_mask(((ucontext_t *)context)->uc_mcontext.gregs))
        set_mask(context);
    if (++steps > STEPS)
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    if (steps % STRIDE == forks % STRIDE)
        require(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1) == 0);
}

static pid_t step_through_fork(void)
{
    step(true);
    pid_t child = fork();
    step(false);
    return child;
}

static void free_all(void)
{
    for (int i = 0; i < KEPT; i++) {
        require(!kept[i] || is_filled(kept[i], 24));
        free(kept[i]);
        kept[i] = NULL;
    }
    exercise();
}

static void require_open_mask(void)
{
    sigset_t mask;
    require(sigprocmask(SIG_BLOCK, NULL, &mask) == 0);
    for (int number = 1; number < 32; number++)
        require(sigismember(&mask, number) == (number == SIGUSR2));
}

static void fork_once(void)
{
    steps = handled = 0;
    pid_t child = step_through_fork();
    require(child >= 0 && steps > 60 && handled > 60 / STRIDE - 2);
    require_open_mask();
    free_all();
    if (child == 0) {
        alarm(600);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            exercise();
            _exit(0);
        }
        int status;
        require(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        _exit(0);
    }
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
}

static void *hammer(void *unused)
{
    while (!stop)
        exercise();
    return unused;
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    int started = count > 1 && strcmp(arguments[1], "threads") == 0 ? THREADS : 0;
    alarm(900); /* a deadlock ends with SIGALRM */
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    for (int i = 0; i < started; i++)
        require(pthread_create(&threads[i], NULL, hammer, NULL) == 0);
    require(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0);
    struct sigaction action = {.sa_sigaction = send_signal, .sa_flags = SA_SIGINFO};
    require(sigaction(SIGTRAP, &action, NULL) == 0 && signal(SIGUSR1, allocate) != SIG_ERR);
    exercise();
    for (; forks < FORKS; forks++)
        fork_once();
    stop = true;
    for (int i = 0; i < started; i++)
        require(pthread_join(threads[i], NULL) == 0);
    return 0;
}
