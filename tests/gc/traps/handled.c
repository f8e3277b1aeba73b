/* SPDX-License-Identifier: MIT
 *
 * handled.c: a signal of the program's ends a wait, and a stop comes before the program sees it.
 *
 * The program's handler holds the stop's signal back until it is pending. So the kernel delivers it
 * in the moment when the handler has returned: then the wait's EINTR, or its part of a transfer,
 * is all that there is to see. The wait must not go on. The argument names the wait, or what else
 * happens.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/gc/traps/in_call.h"
#include "tests/gc/traps/trap.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt */

enum { SIGNAL = SIGUSR1, LONG_MS = 600000, MANY_BYTES = 1 << 20 };

static const char *case_name;
static int ends[2], inner[2];
static _Atomic pid_t waiter;
static _Atomic bool awaits_stop, is_handled, done;

static bool is_waiting_in(long call)
{
    return call_of(waiter) == call;
}

/* Waits. Each returns whether it ended as it must. */

static bool is_interrupted(long result)
{
    return result == -1 && errno == EINTR;
}

static sigset_t open_mask(void)
{
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    sigdelset(&mask, SIGNAL);
    return mask;
}

/* The wait itself lets the signal in. */
static void block_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGNAL);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static bool in_pause(void)
{
    return is_interrupted(pause());
}

static bool in_sigsuspend(void)
{
    block_signal();
    sigset_t mask = open_mask();
    return is_interrupted(sigsuspend(&mask));
}

static bool in_poll(void)
{
    struct pollfd descriptor = {.fd = ends[0], .events = POLLIN};
    return is_interrupted(poll(&descriptor, 1, -1));
}

static bool in_poll_limit(void)
{
    struct pollfd descriptor = {.fd = ends[0], .events = POLLIN};
    return is_interrupted(poll(&descriptor, 1, LONG_MS));
}

static bool in_ppoll(void)
{
    struct timespec limit = {.tv_sec = LONG_MS / 1000};
    struct pollfd descriptor = {.fd = ends[0], .events = POLLIN};
    block_signal();
    sigset_t mask = open_mask();
    return is_interrupted(ppoll(&descriptor, 1, &limit, &mask));
}

static bool in_pselect(void)
{
    block_signal();
    sigset_t mask = open_mask();
    return is_interrupted(pselect(0, NULL, NULL, NULL, NULL, &mask));
}

static bool in_epoll(void)
{
    struct epoll_event event;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    block_signal();
    sigset_t mask = open_mask();
    return is_interrupted(epoll_pwait(epoll, &event, 1, LONG_MS, &mask));
}

static bool in_sleep(void)
{
    struct timespec time = {.tv_sec = LONG_MS / 1000};
    return is_interrupted(nanosleep(&time, &time));
}

static bool in_receive_limit(void)
{
    char byte;
    struct timeval limit = {.tv_sec = LONG_MS / 1000};
    require(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    return is_interrupted(recv(ends[0], &byte, 1, 0));
}

static bool in_receive_all(void)
{
    char bytes[100] = {0};
    require(send(ends[1], bytes, 10, 0) == 10);
    return recv(ends[0], bytes, sizeof bytes, MSG_WAITALL) == 10;
}

static bool in_send(void)
{
    static char bytes[MANY_BYTES];
    ssize_t sent = send(ends[0], bytes, sizeof bytes, 0);
    return sent > 0 && sent < MANY_BYTES;
}

static const struct wait {
    const char *name;
    long call; /* in which the thread is then */
    bool (*ends)(void);
} waits[] = {
    {"pause", SYS_pause, in_pause},
    {"sigsuspend", SYS_rt_sigsuspend, in_sigsuspend},
    {"poll", SYS_poll, in_poll},
    {"poll-limit", SYS_poll, in_poll_limit},
    {"ppoll", SYS_ppoll, in_ppoll},
    {"pselect", SYS_pselect6, in_pselect},
    {"epoll", SYS_epoll_pwait, in_epoll},
    {"sleep", SYS_clock_nanosleep, in_sleep},
    {"receive-limit", SYS_recvfrom, in_receive_limit},
    {"receive-all", SYS_recvfrom, in_receive_all},
    {"send", SYS_sendto, in_send},
};

static void *wait_in(void *argument)
{
    const struct wait *wait = argument;
    waiter = gettid();
    require(wait->ends());
    done = true;
    return NULL;
}

static void interrupt_in(const struct wait *wait, pthread_t *thread)
{
    require(pthread_create(thread, NULL, wait_in, (void *)(uintptr_t)wait) == 0);
    while (!waiter || !is_waiting_in(wait->call))
        sched_yield();
    require(pthread_kill(*thread, SIGNAL) == 0);
}

/* The handler has run: whoever waits in the call again has lost it. */
static void require_end(const struct wait *wait, pthread_t thread)
{
    while (!done)
        require(!is_handled || !(is_waiting_in(wait->call) || is_waiting_in(SYS_poll)));
    require(pthread_join(thread, NULL) == 0);
}

/* Returns when the stop's signal is pending. */
static void await_stop(int number)
{
    enum { STOP_SIGNAL = 33 };
    uint64_t all = ~UINT64_C(0), pending = 0;
    int error = errno;
    (void)number;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
    awaits_stop = true;
    while (!(pending >> (STOP_SIGNAL - 1) & 1))
        syscall(SYS_rt_sigpending, &pending, sizeof pending);
    is_handled = true;
    errno = error;
}

static void stop_at_return(const struct wait *wait, void (*install)(void))
{
    pthread_t thread;
    install();
    interrupt_in(wait, &thread);
    while (!awaits_stop)
        sched_yield();
    malloc_trim(0);
    require_end(wait, thread);
}

static void by_sigaction(void)
{
    require(sigaction(SIGNAL, &(struct sigaction){.sa_handler = await_stop}, NULL) == 0);
}

static void by_signal(void)
{
    require(signal(SIGNAL, await_stop) == SIG_DFL);
}

static void by_siginterrupt(void)
{
    require(signal(SIGNAL, await_stop) == SIG_DFL && siginterrupt(SIGNAL, 1) == 0);
}

static void by_sysv_signal(void)
{
    require(sysv_signal(SIGNAL, await_stop) == SIG_DFL);
}

static void by_sigset(void)
{
    require(sigset(SIGNAL, await_stop) == SIG_DFL);
}

static const struct installer {
    const char *name;
    void (*install)(void);
} installers[] = {
    {"by-signal", by_signal},
    {"by-siginterrupt", by_siginterrupt},
    {"by-sysv-signal", by_sysv_signal},
    {"by-sigset", by_sigset},
};

/* The handler itself waits, and a stop ends that wait. */

static void wait_within(int number)
{
    int error = errno;
    struct pollfd descriptor = {.fd = inner[0], .events = POLLIN};
    (void)number;
    awaits_stop = true;
    require(poll(&descriptor, 1, LONG_MS) == 1);
    is_handled = true;
    errno = error;
}

static void stop_within(void)
{
    pthread_t thread;
    static const struct wait outer = {"nested", SYS_poll, in_poll_limit};
    require(sigaction(SIGNAL, &(struct sigaction){.sa_handler = wait_within}, NULL) == 0);
    interrupt_in(&outer, &thread);
    while (!awaits_stop || !is_waiting_in(SYS_poll))
        sched_yield();
    malloc_trim(0);
    require(write(inner[1], "x", 1) == 1);
    require_end(&outer, thread);
}

/* Signals come into stops, of which each finds one pending. The handler has SA_RESTART, and so the
 * wait goes on. They come from another process, which no stop holds up. */

enum { STOPS = 100 };
static sem_t semaphore;
static _Atomic int handled;

static void count_signal(int number)
{
    (void)number;
    handled++;
}

/* Of a wait's own result errno tells behind it. */
static void count_and_leave_errno(int number)
{
    count_signal(number);
    errno = ENOTTY;
}

static void *await_semaphore(void *unused)
{
    waiter = gettid();
    require(sem_wait(&semaphore) == 0);
    return unused;
}

static void stop_restarting(void)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = count_and_leave_errno, .sa_flags = SA_RESTART};
    require(sem_init(&semaphore, 0, 0) == 0 && sigaction(SIGNAL, &action, NULL) == 0);
    require(pthread_create(&thread, NULL, await_semaphore, NULL) == 0);
    while (!waiter || !is_waiting_in(SYS_futex))
        sched_yield();
    pid_t program = getpid(), sender = fork();
    while (sender == 0 && syscall(SYS_tgkill, program, waiter, SIGNAL) == 0)
        ;
    if (sender == 0)
        _exit(0); /* the program has failed */
    for (int i = 0; i < STOPS || !handled; i++)
        malloc_trim(0);
    require(sender > 0 && kill(sender, SIGKILL) == 0 && waitpid(sender, NULL, 0) == sender);
    require(sem_post(&semaphore) == 0 && pthread_join(thread, NULL) == 0);
}

/* A signal to the process is handled by one thread, and ends no other's wait. */

enum { READERS = 4 };
static _Atomic int ended;

static void *read_often(void *unused)
{
    char byte;
    while (!done) {
        ssize_t result = read(inner[0], &byte, 1);
        ended += is_interrupted(result);
        require(result != 0 && (result > 0 || errno == EINTR));
    }
    return unused;
}

static void signal_the_process(void)
{
    pthread_t threads[READERS];
    struct sigaction action = {.sa_handler = count_signal};
    require(sigaction(SIGNAL, &action, NULL) == 0);
    for (int i = 0; i < READERS; i++)
        require(pthread_create(&threads[i], NULL, read_often, NULL) == 0);
    block_signal();
    pid_t program = getpid(), sender = fork();
    while (sender == 0 && kill(program, SIGNAL) == 0)
        usleep(200);
    if (sender == 0)
        _exit(0); /* the program has failed */
    for (int i = 0; i < STOPS || handled < STOPS; i++)
        malloc_trim(0);
    require(sender > 0 && kill(sender, SIGKILL) == 0 && waitpid(sender, NULL, 0) == sender);
    done = true;
    require(write(inner[1], "xxxx", READERS) == READERS);
    for (int i = 0; i < READERS; i++)
        require(pthread_join(threads[i], NULL) == 0);
    require(ended <= handled);
}

/* A signal that only the mask of a wait blocks comes behind it. */

enum { WAITS = 10 };
static _Atomic int woken;

static void count_alarm(int number)
{
    (void)number;
    woken++;
}

/* Between the wait's end and the look at errno there is no other signal. */
static bool ends_by_alarm(const sigset_t *mask)
{
    int before = woken;
    sigset_t alarm, open, wait = *mask;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, &open);
    bool ended = is_interrupted(sigsuspend(&wait)) && woken > before;
    pthread_sigmask(SIG_SETMASK, &open, NULL);
    return ended;
}

static bool ends_masked(int epoll, const sigset_t *mask)
{
    const struct timespec span = {.tv_nsec = 20000000};
    struct pollfd descriptor = {.fd = ends[0], .events = POLLIN};
    struct epoll_event event;
    if (!strcmp(case_name, "masked-ppoll"))
        return ppoll(&descriptor, 1, &span, mask) == 0;
    if (!strcmp(case_name, "masked-pselect"))
        return pselect(0, NULL, NULL, NULL, &span, mask) == 0;
    if (!strcmp(case_name, "masked-epoll"))
        return epoll_pwait(epoll, &event, 1, 20, mask) == 0;
    return ends_by_alarm(mask);
}

static void *wait_masked(void *unused)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGNAL);
    waiter = gettid();
    for (int i = 0; i < WAITS || handled == 0; i++)
        require(ends_masked(epoll, &mask));
    done = true;
    return unused;
}

/* A sandbox that has no use for other masks, nor for clocks. */
static void wait_in_sandbox(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    const struct timespec span = {.tv_nsec = 1000000};
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGNAL);
    malloc_trim(0); /* there is none from then on */
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    require(ppoll(NULL, 0, &span, &mask) == 0 && pselect(0, NULL, NULL, NULL, &span, &mask) == 0);
    require(nanosleep(&span, NULL) == 0 && poll(NULL, 0, 1) == 0);
}

static void end_by_alarm(pthread_t thread, int wait)
{
    while (!is_waiting_in(SYS_rt_sigsuspend))
        sched_yield();
    require(pthread_kill(thread, SIGNAL) == 0);
    malloc_trim(0);
    require(pthread_kill(thread, SIGALRM) == 0);
    while (woken == wait)
        sched_yield();
}

static void wait_with_masks(void)
{
    pthread_t thread;
    sigset_t all;
    struct sigaction action = {.sa_handler = count_and_leave_errno};
    require(sigaction(SIGNAL, &action, NULL) == 0);
    require(sigaction(SIGALRM, &(struct sigaction){.sa_handler = count_alarm}, NULL) == 0);
    require(pthread_create(&thread, NULL, wait_masked, NULL) == 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (!waiter)
        sched_yield();
    for (int wait = 0; !strcmp(case_name, "masked-suspend") && wait < WAITS; wait++)
        end_by_alarm(thread, wait);
    while (!done) {
        require(pthread_kill(thread, SIGNAL) == 0);
        malloc_trim(0);
    }
    require(pthread_join(thread, NULL) == 0 && handled > 0);
}

static const struct {
    const char *name;
    void (*happens)(void);
} others[] = {
    {"nested", stop_within},
    {"restarting", stop_restarting},
    {"to-process", signal_the_process},
    {"sandbox", wait_in_sandbox},
    {"masked-ppoll", wait_with_masks},
    {"masked-pselect", wait_with_masks},
    {"masked-epoll", wait_with_masks},
    {"masked-suspend", wait_with_masks},
};

static bool happens(void)
{
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (!strcmp(waits[i].name, case_name))
            return stop_at_return(&waits[i], by_sigaction), true;
    for (size_t i = 0; i < sizeof installers / sizeof *installers; i++)
        if (!strcmp(installers[i].name, case_name))
            return stop_at_return(&waits[0], installers[i].install), true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(others[i].name, case_name))
            return others[i].happens(), true;
    return false;
}

int main(int count, char **arguments)
{
    require(count == 2);
    case_name = arguments[1];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && pipe(inner) == 0);
    require(happens());
    return 0;
}
