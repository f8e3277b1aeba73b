/* SPDX-License-Identifier: MIT
 *
 * execs.c: the program goes on as another one, at any moment of a collection, and may come from one
 * that has put it into a sandbox. The argument names how.
 */
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "include/allotrope/gc.h"
#include "tests/gc/traps/trap.h"
#include "tests/unit/single_step.h"

enum { STOP_SIGNAL = 33, TRIES = 25 };

extern char **environ;
static char *self;

static void *collect_for_ever(void *unused)
{
    for (;;)
        malloc_trim(0);
    return unused;
}

static pthread_t start(void *(*function)(void *))
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, function, NULL) == 0);
    return thread;
}

/* What comes after: nothing is left of the stops before. */
static void after(void)
{
    uint64_t blocked, pending;
    require(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &blocked, 8) == 0);
    require(syscall(SYS_rt_sigpending, &pending, 8) == 0);
    require(!(blocked >> (STOP_SIGNAL - 1) & 1) && !(pending >> (STOP_SIGNAL - 1) & 1));
    exit(0);
}

static int status_of(pid_t child)
{
    int status;
    require(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static char *after_arguments[] = {NULL, "after", NULL};

/* In a child each time; `end` calls execve, while others collect. */
static void many_times(void (*end)(int number))
{
    for (int i = 0; i < TRIES; i++) {
        pid_t child = fork();
        if (child == 0)
            end(i);
        require(status_of(child) == 0);
    }
    require_collections();
}

static void exec_beside_collector(int number)
{
    start(collect_for_ever);
    start(collect_for_ever);
    for (volatile int i = 0; i < number * 20000; i++)
        ;
    execve(self, after_arguments, environ);
    _exit(98);
}

static void *exec_in_thread(void *unused)
{
    for (volatile int i = 0; i < 300000; i++)
        ;
    execv(self, after_arguments);
    return unused;
}

static void exec_by_other_thread(int number)
{
    (void)number;
    start(exec_in_thread);
    collect_for_ever(NULL);
}

/* execve may be called in a signal handler, whatever that has interrupted. */
static void exec_on_signal(int signal)
{
    (void)signal;
    execve(self, after_arguments, environ);
    _exit(98);
}

static void exec_in_handler(int number)
{
    struct itimerval timer = {.it_value.tv_usec = 100 + number * 37};
    require(signal(SIGALRM, exec_on_signal) != SIG_ERR);
    start(collect_for_ever);
    require(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    collect_for_ever(NULL);
}

/* The handler has interrupted what asks for roots, which a collection waits for. At each eighth
 * instruction another thread begins a collection: it ends, or it sleeps. Each function holds its
 * lock for more than eight. */
static _Atomic int collections_asked, collections_done;
static _Atomic pid_t collecting_thread;

static void *collect_when_asked(void *unused)
{
    collecting_thread = gettid();
    for (;; sched_yield())
        if (collections_done != collections_asked) {
            malloc_trim(0);
            collections_done++;
        }
    return unused;
}

static bool thread_sleeps(pid_t thread)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    int file = open(path, O_RDONLY);
    require(file >= 0 && read(file, line, sizeof line - 1) > 0);
    close(file);
    return strrchr(line, ')')[2] == 'S';
}

static bool begin_collection_at_step(void)
{
    static int steps;
    if (++steps % 8 != 0)
        return false;
    collections_asked++;
    while (collections_done != collections_asked && !thread_sleeps(collecting_thread))
        sched_yield();
    return true;
}

static void fail_exec_beside_collection(int signal)
{
    (void)signal;
    if (!begin_collection_at_step())
        return;
    require(execve("/nowhere", after_arguments, environ) == -1 && errno == ENOENT);
    require(setgid(getgid()) == 0);
}

/* What the kernel is handed is pinned. */
static int ends[2];
static void *block;

static void write_beside_collection(int signal)
{
    void *back;
    (void)signal;
    if (begin_collection_at_step())
        require(write(ends[1], &block, sizeof block) == read(ends[0], &back, sizeof back));
}

static void change_roots(void)
{
    static void *root;
    require(allotrope_gc_pin(&root) == 0 && allotrope_gc_unpin(&root) == 0);
    require(allotrope_gc_add_roots(&root, sizeof root) == 0);
    require(allotrope_gc_remove_roots(&root, sizeof root) == 0);
}

static void step_through_roots(void (*handler)(int signal))
{
    const struct sigaction action = {.sa_handler = handler};
    require(sigaction(SIGTRAP, &action, NULL) == 0);
    start(collect_when_asked);
    while (!collecting_thread)
        sched_yield();
    change_roots(); /* so that ld.so has found the functions */
    step(true);
    change_roots();
    step(false);
}

static void exec_in_roots(void)
{
    step_through_roots(fail_exec_beside_collection);
    require_collections();
    exit(0);
}

static void write_in_roots(void)
{
    require(pipe(ends) == 0);
    block = malloc(TRAP_BYTES);
    step_through_roots(write_beside_collection);
    exit(0);
}

/* The call does not return: the handler of a fault that libc comes to in it jumps out of it, or
 * ends the thread. */
static sigjmp_buf outside;

static void jump_out(int signal)
{
    (void)signal;
    siglongjmp(outside, 1);
}

static void end_thread(int signal)
{
    (void)signal;
    pthread_exit(NULL);
}

static void *exec_of_bad_name(void *unused)
{
    execvp((const char *)8, after_arguments);
    require(!"a fault");
    return unused;
}

static void exec_left(void)
{
    require(signal(SIGSEGV, jump_out) != SIG_ERR);
    if (!sigsetjmp(outside, 1))
        exec_of_bad_name(NULL);
    require_collections();
    require(signal(SIGSEGV, end_thread) != SIG_ERR);
    require(pthread_join(start(exec_of_bad_name), NULL) == 0);
    require_collections();
}

/* A call that fails leaves everything as it was, in a child that borrows the memory too. */
static void failing(void)
{
    char *const arguments[] = {"nowhere", NULL};
    for (int i = 0; i < TRIES; i++) {
        require(execve("/nowhere", arguments, environ) == -1 && errno == ENOENT);
        require(execvp("nowhere-at-all", arguments) == -1 && errno == ENOENT);
        malloc_trim(0);
    }
    require_collections();
}

static void borrowed(void)
{
    start(collect_for_ever);
    for (int i = 0; i < TRIES; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execve(i % 2 == 0 ? "/nowhere" : self, after_arguments, environ);
            _exit(i % 2 == 0 ? 0 : 98);
        }
        require(status_of(child) == 0);
    }
    require_collections();
    exit(0);
}

/* Each of libc's functions hands on the arguments and the environment. */
static void kinds(void)
{
    static char *const other[] = {"TRAP=other", NULL};
    for (int kind = 0; kind < 8; kind++) {
        char *list[] = {"zero", "seen", kind == 4 || kind > 5 ? "other" : "own", NULL};
        char *const *given = list;
        pid_t child = fork();
        if (child == 0) {
            setenv("TRAP", "own", 1);
            int file = open(self, O_RDONLY | O_CLOEXEC);
            switch (kind) {
            case 0:
                execl(self, "zero", "seen", "own", NULL);
                break;
            case 1:
                execlp(self, "zero", "seen", "own", NULL);
                break;
            case 2:
                execv(self, given);
                break;
            case 3:
                execvp(self, given);
                break;
            case 4:
                execle(self, "zero", "seen", "other", NULL, other);
                break;
            case 5:
                fexecve(file, given, environ);
                break;
            case 6:
                execvpe(self, given, other);
                break;
            case 7:
                execveat(file, "", given, other, AT_EMPTY_PATH);
                break;
            }
            _exit(98);
        }
        int status = status_of(child);
        if (status != 0)
            fprintf(stderr, "kind %d\n", kind);
        require(status == 0);
    }
    require_collections();
}

static void seen(char **arguments)
{
    require(!strcmp(arguments[0], "zero") && !strcmp(getenv("TRAP"), arguments[2]));
}

/* A thread that has no processor for a long time answers all the same. */
static _Atomic int spins;

static void *spin_idly(void *unused)
{
    struct sched_param none = {0};
    require(sched_setscheduler(0, SCHED_IDLE, &none) == 0);
    spins = 1;
    for (;;)
        __asm__ volatile("pause");
    return unused;
}

/* Without a processor for so long, a thread is not waited for (gc/world/stop.c). */
enum { STARVED_SECONDS = 20 };

static void starved(void)
{
    cpu_set_t allowed, one;
    require(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    int processor = 0;
    while (!CPU_ISSET(processor, &allowed))
        processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    pthread_t thread = start(spin_idly);
    while (!spins)
        sched_yield();
    require(pthread_setaffinity_np(thread, sizeof one, &one) == 0);
    pid_t child = fork();
    if (child == 0) { /* takes the processor */
        sched_setaffinity(0, sizeof one, &one);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            __asm__ volatile("pause");
    }
    usleep(300000);
    for (time_t begun = time(NULL); !is_collected(); begun = time(NULL))
        require(time(NULL) - begun >= STARVED_SECONDS - 1);
    kill(child, SIGKILL);
    exit(0);
}

/* Sandboxes that were there before the program. */

static const int forbidden[] = {SYS_mincore, SYS_rt_tgsigqueueinfo, SYS_getdents64,
                                SYS_sysinfo, SYS_sched_getaffinity, SYS_process_vm_readv};
enum { FORBIDDEN = sizeof forbidden / sizeof *forbidden };

static void enter_filter(uint32_t answer)
{
    struct sock_filter filter[3 + FORBIDDEN] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (unsigned i = 0; i < FORBIDDEN; i++)
        filter[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                     (uint32_t)forbidden[i], FORBIDDEN - i, 0);
    filter[1 + FORBIDDEN] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[2 + FORBIDDEN] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
    struct sock_fprog program = {3 + FORBIDDEN, filter};
    require(syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        skip("this kernel has no filters of system calls");
}

static void inherited_filter(void)
{
    enter_filter(SECCOMP_RET_KILL_PROCESS);
    execl(self, self, "filtered", NULL);
}

/* No collections, but frees count and nothing is lost. */
static void filtered(void)
{
    struct rusage before, after_use;
    void *volatile block = signed_block();
    struct disguised mine = disguise(block);
    for (int i = 0; i < 10; i++)
        malloc_trim(0);
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 200000; i++)
        free(memset(malloc(1000), 1, 1000));
    getrusage(RUSAGE_SELF, &after_use);
    require(is_kept(mine) && block && after_use.ru_maxrss < before.ru_maxrss + 50 * 1024);
}

/* A container: its first process has the same filter, which answers with an error. */
static void contained(void)
{
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
        skip("namespaces are not allowed here");
    pid_t first = fork();
    if (first == 0) {
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("proc", "/proc", "proc", 0, NULL) != 0)
            skip("mounting is not allowed here");
        uint32_t answer = SECCOMP_RET_ERRNO | EPERM;
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_keyctl, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_K, answer)};
        struct sock_fprog program = {4, filter};
        require(syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        require(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
        pid_t child = fork();
        if (child == 0)
            execl(self, self, "collects", NULL);
        exit(WEXITSTATUS(status_of(child)));
    }
    exit(WEXITSTATUS(status_of(first)));
}

int main(int count, char **arguments)
{
    require(count >= 2);
    const char *how = arguments[1];
    char path[4096] = "";
    require(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    self = after_arguments[0] = path;
    pass_first_blocks();
    if (!strcmp(how, "after"))
        after();
    else if (!strcmp(how, "seen"))
        seen(arguments);
    else if (!strcmp(how, "exec"))
        many_times(exec_beside_collector);
    else if (!strcmp(how, "exec-in-thread"))
        many_times(exec_by_other_thread);
    else if (!strcmp(how, "exec-in-handler"))
        many_times(exec_in_handler);
    else if (!strcmp(how, "exec-in-roots"))
        exec_in_roots();
    else if (!strcmp(how, "write-in-roots"))
        write_in_roots();
    else if (!strcmp(how, "exec-left"))
        exec_left();
    else if (!strcmp(how, "exec-fails"))
        failing();
    else if (!strcmp(how, "exec-in-borrowed"))
        borrowed();
    else if (!strcmp(how, "exec-kinds"))
        kinds();
    else if (!strcmp(how, "starved"))
        starved();
    else if (!strcmp(how, "inherited-filter"))
        inherited_filter();
    else if (!strcmp(how, "filtered"))
        filtered();
    else if (!strcmp(how, "contained"))
        contained();
    else if (!strcmp(how, "collects"))
        require_collections();
    else
        require(!"a known way");
    return 0;
}
