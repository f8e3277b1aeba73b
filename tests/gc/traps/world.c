/* SPDX-License-Identifier: MIT
 *
 * world.c: what the rest of a program does that a collector could be in the way of, or the
 * other way round. The argument names it.
 *
 * A second argument, `without-scans`: on a kernel of before Linux 6.7, which does not know
 * PAGEMAP_SCAN.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/gc/traps/refuse_scans.h"
#include "tests/gc/traps/trap.h"

static _Atomic int stop;

static void *collect_until_told(void *unused)
{
    while (!stop) {
        malloc_trim(0);
        sched_yield();
    }
    return unused;
}

static pthread_t start(void *(*function)(void *))
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, function, NULL) == 0);
    return thread;
}

/* Pointers that only the kernel has. */

__attribute__((noinline)) static struct disguised give_to_epoll(int epoll, int target)
{
    void *block = signed_block();
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = block};
    require(epoll_ctl(epoll, EPOLL_CTL_ADD, target, &event) == 0);
    memset(&event, 0, sizeof event);
    return disguise(block);
}

static void epoll_data(void)
{
    int ends[2], epoll = epoll_create1(0);
    require(pipe(ends) == 0);
    struct disguised block = give_to_epoll(epoll, ends[0]);
    collect();
    require(is_kept(block) && write(ends[1], "x", 1) == 1);
    struct epoll_event event;
    require(epoll_wait(epoll, &event, 1, -1) == 1 && event.data.ptr == reveal(block));
    free(event.data.ptr);
}

/* A pointer on its way through a pipe, or a pair of sockets, is read by nobody yet. */
__attribute__((noinline)) static struct disguised give_to_stream(int end, bool send_it)
{
    void *message[2] = {NULL, signed_block()};
    struct disguised block = disguise(message[1]);
    require((send_it ? send(end, message, sizeof message, 0)
                     : write(end, message, sizeof message)) == sizeof message);
    memset(message, 0, sizeof message);
    return block;
}

static void streams(void)
{
    int ends[2], pair[2];
    void *message[2], *volatile unreadable = NULL;
    require(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    struct disguised written = give_to_stream(ends[1], false);
    struct disguised sent = give_to_stream(pair[1], true);
    collect();
    require(is_kept(written) && is_kept(sent));
    require(read(ends[0], message, sizeof message) == sizeof message);
    require(message[1] == reveal(written));
    require(write(ends[1], unreadable, 16) == -1 && errno == EFAULT);
}

/* A value queued for a thread, and one for when a message queue is written to. */
__attribute__((noinline)) static struct disguised queue_for_thread(void)
{
    union sigval value = {.sival_ptr = signed_block()};
    require(pthread_sigqueue(pthread_self(), SIGUSR2, value) == 0);
    return disguise(value.sival_ptr);
}

static void queued_for_thread(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    struct disguised block = queue_for_thread();
    collect();
    require(is_kept(block));
}

__attribute__((noinline)) static struct disguised give_to_queue(mqd_t queue)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    event.sigev_value.sival_ptr = signed_block();
    struct disguised block = disguise(event.sigev_value.sival_ptr);
    require(mq_notify(queue, &event) == 0);
    memset(&event, 0, sizeof event);
    return block;
}

static void message_queue(void)
{
    char name[32];
    snprintf(name, sizeof name, "/trap%d", getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
    if (queue == (mqd_t)-1)
        skip("this kernel has no POSIX message queues");
    mq_unlink(name);
    struct disguised block = give_to_queue(queue);
    collect();
    require(is_kept(block));
}

__attribute__((noinline)) static struct disguised give_to_timer(timer_t *timer)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    event.sigev_value.sival_ptr = signed_block();
    struct disguised block = disguise(event.sigev_value.sival_ptr);
    require(timer_create(CLOCK_MONOTONIC, &event, timer) == 0);
    memset(&event, 0, sizeof event);
    return block;
}

__attribute__((noinline)) static struct disguised queue_for_process(void)
{
    union sigval value = {.sival_ptr = signed_block()};
    require(sigqueue(getpid(), SIGUSR2, value) == 0);
    return disguise(value.sival_ptr);
}

__attribute__((noinline)) static struct disguised send_by_descriptor(void)
{
    siginfo_t info = {.si_signo = SIGUSR2, .si_code = SI_QUEUE};
    int self = pidfd_open(getpid(), 0);
    if (self < 0)
        skip("this kernel has no descriptors of processes");
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = signed_block();
    struct disguised block = disguise(info.si_value.sival_ptr);
    require(pidfd_send_signal(self, SIGUSR2, &info, 0) == 0 && close(self) == 0);
    memset(&info, 0, sizeof info);
    return block;
}

static void signal_by_descriptor(void)
{
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct disguised sent = send_by_descriptor();
    collect();
    require(is_kept(sent) && sigwaitinfo(&set, &info) == SIGUSR2);
    require(info.si_value.sival_ptr == reveal(sent));
}

static void signal_values(void)
{
    sigset_t set;
    timer_t timer;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct disguised timed = give_to_timer(&timer), queued = queue_for_process();
    collect();
    siginfo_t info;
    require(is_kept(timed) && is_kept(queued) && sigwaitinfo(&set, &info) == SIGUSR2);
    require(info.si_value.sival_ptr == reveal(queued));
    timer_delete(timer);
}

/* A block that was pinned is freed by a free, and what comes in its place is not pinned. */
static void pins_end(void)
{
    enum { BLOCKS = 100 };
    static struct disguised blocks[BLOCKS];
    int ends[2], epoll = epoll_create1(0), kept = 0;
    require(pipe(ends) == 0);
    for (int i = 0; i < BLOCKS; i++) {
        int target = dup(ends[0]);
        blocks[i] = give_to_epoll(epoll, target);
        require(epoll_ctl(epoll, EPOLL_CTL_DEL, target, NULL) == 0 && close(target) == 0);
        free(reveal(blocks[i]));
    }
    close(epoll);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = disguise(signed_block());
    collect();
    for (int i = 0; i < BLOCKS; i++)
        kept += is_kept(blocks[i]);
    require(kept < BLOCKS / 2);
}

/* A ring of io_uring: its queues are memory shared with the kernel, which alone has the addresses
 * of buffers that were registered with it. */

static struct io_uring_params ring = {0};
static char *ring_memory;
static struct io_uring_sqe *ring_entries;

static int open_ring(void)
{
    long opened = syscall(SYS_io_uring_setup, 8, &ring);
    if (opened < 0)
        skip("io_uring is not allowed here");
    size_t bytes = ring.cq_off.cqes + ring.cq_entries * sizeof(struct io_uring_cqe);
    ring_memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)opened, IORING_OFF_SQ_RING);
    ring_entries = mmap(NULL, ring.sq_entries * sizeof *ring_entries, PROT_READ | PROT_WRITE,
                        MAP_SHARED, (int)opened, IORING_OFF_SQES);
    require(ring_memory != MAP_FAILED && ring_entries != MAP_FAILED);
    return (int)opened;
}

static unsigned *ring_number(unsigned offset)
{
    return (unsigned *)(void *)(ring_memory + offset);
}

/* The block's address goes along with a request and comes back with its completion. */
__attribute__((noinline)) static struct disguised submit(int opened, struct io_uring_sqe request)
{
    void *block = signed_block();
    unsigned tail = *ring_number(ring.sq_off.tail), at = tail % ring.sq_entries;
    ring_entries[at] = request;
    ring_entries[at].user_data = (uintptr_t)block;
    ring_number(ring.sq_off.array)[at] = at;
    __atomic_store_n(ring_number(ring.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
    require(syscall(SYS_io_uring_enter, opened, 1, 0, 0, NULL, 0) == 1);
    return disguise(block);
}

static void ring_user_data(void)
{
    int opened = open_ring(), ends[2];
    require(pipe(ends) == 0);
    struct io_uring_sqe wait = {
        .opcode = IORING_OP_POLL_ADD, .fd = ends[0], .poll32_events = EPOLLIN};
    struct disguised waiting = submit(opened, wait);
    collect();
    require(is_kept(waiting));
    struct disguised completed = submit(opened, (struct io_uring_sqe){.opcode = IORING_OP_NOP});
    memset(ring_entries, 0, ring.sq_entries * sizeof *ring_entries);
    collect();
    require(is_kept(completed));
}

__attribute__((noinline)) static struct disguised register_buffer(int opened)
{
    void *block = signed_block();
    struct iovec buffer = {.iov_base = block, .iov_len = TRAP_BYTES};
    require(syscall(SYS_io_uring_register, opened, IORING_REGISTER_BUFFERS, &buffer, 1) == 0);
    memset(&buffer, 0, sizeof buffer);
    return disguise(block);
}

static void ring_buffers(void)
{
    enum { RINGS = 3 };
    struct disguised blocks[RINGS];
    for (int i = 0; i < RINGS; i++)
        blocks[i] = register_buffer(open_ring());
    collect();
    for (int i = 0; i < RINGS; i++)
        require(is_kept(blocks[i]));
}

/* Signals. */

static _Atomic int signals_seen;

static void count_signal(int number)
{
    (void)number;
    signals_seen++;
}

/* Every real-time signal is the program's, and none that it did not send arrives. */
static void real_time_signals(void)
{
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        require(sigaction(number, &action, NULL) == 0);
    pthread_t thread = start(collect_until_told);
    for (int i = 0; i < 20; i++)
        for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
            require(raise(number) == 0);
            malloc_trim(0);
        }
    stop = 1;
    pthread_join(thread, NULL);
    require(signals_seen == 20 * (SIGRTMAX - SIGRTMIN + 1));
}

static void *wait_for_any_signal(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    int number;
    require(sigwait(&all, &number) == 0 && number == SIGUSR1);
    return unused;
}

static void *read_signal_descriptor(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    int descriptor = signalfd(-1, &all, 0);
    struct signalfd_siginfo info;
    require(read(descriptor, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
    return unused;
}

static void waiting_for(void *(*wait)(void *))
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_t thread = start(wait);
    for (int i = 0; i < 100; i++) {
        malloc_trim(0);
        usleep(1000);
    }
    require(pthread_kill(thread, SIGUSR1) == 0 && pthread_join(thread, NULL) == 0);
}

/* glibc's own use of the same signals. */
static void *sleep_long(void *unused)
{
    for (;;)
        sleep(100);
    return unused;
}

/* glibc puts its handler in the place of ours when the first thread is made. */
static void handler_replaced(void)
{
    malloc_trim(0);
    start(sleep_long);
    require_collections();
    exit(0);
}

static void setuid_and_cancel(void)
{
    for (int i = 0; i < 20; i++) {
        pthread_t thread = start(sleep_long);
        malloc_trim(0);
        require(setuid(getuid()) == 0 && setgid(getgid()) == 0);
        malloc_trim(0);
        require(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0);
    }
    stop = 0;
    pthread_t collector = start(collect_until_told);
    for (int i = 0; i < 200; i++)
        require(setuid(getuid()) == 0);
    stop = 1;
    pthread_join(collector, NULL);
}

/* Processes. */

static void child_uses_heap(void)
{
    void *volatile block = signed_block();
    struct disguised mine = disguise(block);
    collect();
    _exit(is_kept(mine) && block ? 0 : 1);
}

/* Without the breaks a fork would wait for some 200 collections until it has the lock. */
static void *collect_with_breaks(void *unused)
{
    while (!stop) {
        malloc_trim(0);
        usleep(100);
    }
    return unused;
}

static void forks(void)
{
    /* A peak that the children stay below: at each new one statistics look at the whole heap. */
    void *volatile peak = malloc((size_t)4 << 20);
    free(peak);
    pthread_t threads[2] = {start(collect_with_breaks), start(collect_with_breaks)};
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0)
            child_uses_heap();
        int status;
        require(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void spawns(void)
{
    static char *const command[] = {"true", NULL};
    extern char **environ;
    pthread_t thread = start(collect_until_told);
    for (int i = 0; i < 60; i++) {
        pid_t child;
        int status;
        require(posix_spawnp(&child, "true", NULL, NULL, command, environ) == 0);
        require(waitpid(child, &status, 0) == child && status == 0);
        if (i % 10)
            continue;
        child = vfork(); /* a collection that waits for us is given up */
        if (child == 0) {
            free(malloc(100000));
            _exit(0);
        }
        require(waitpid(child, &status, 0) == child && status == 0);
    }
    stop = 1;
    pthread_join(thread, NULL);
}

/* A pointer in memory that is shared across fork, put there by the parent. */
static void shared_across_fork(void)
{
    void *volatile *shared =
        mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(shared != MAP_FAILED);
    void *block = signed_block();
    struct disguised mine = disguise(block);
    shared[700] = block;
    block = NULL;
    pid_t child = fork();
    if (child == 0) {
        collect();
        exit(is_kept(mine) ? 0 : 1);
    }
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
}

/* A child sees its own memory, not the parent's, in what the parent has open of /proc. */
__attribute__((noinline)) static struct disguised put_in_new_mapping(int protection)
{
    void *volatile *mapping =
        mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(mapping != MAP_FAILED);
    mapping[600] = signed_block();
    struct disguised block = disguise(mapping[600]);
    require(mprotect((void *)mapping, 8192, protection) == 0);
    return block;
}

static void mapped_after_fork(void)
{
    malloc_trim(0);
    pid_t child = fork();
    if (child == 0) {
        struct disguised found = put_in_new_mapping(PROT_READ | PROT_WRITE);
        struct disguised copied = put_in_new_mapping(PROT_NONE);
        collect();
        exit(is_kept(found) && is_kept(copied) ? 0 : 1);
    }
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
}

/* A helper that has not come to an end when its process forks: nobody will say in the child that
 * it has. Here a tracer never lets it begin. */
static bool has_helper(void)
{
    struct stat tasks;
    require(stat("/proc/self/task", &tasks) == 0);
    return tasks.st_nlink > 3;
}

static void fill_for_helpers(void)
{
    enum { LINKS = 1000000 };
    static void **list;
    for (int i = 0; i < LINKS; i++) {
        void **link = malloc(2 * sizeof *link);
        *link = list;
        list = link;
    }
}

static void fork_beside_helper(void)
{
    enum { TRIES = 10 };
    fill_for_helpers();
    for (int i = 0; !has_helper(); i++) {
        if (i == TRIES)
            skip("no processor was idle, as far as the kernel told");
        malloc_trim(0);
    }
    pid_t child = fork();
    if (child == 0) {
        alarm(600);
        child_uses_heap();
    }
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
    exit(0);
}

/* Before credentials or namespaces change, helpers are gone: they would keep the old credentials,
 * and the kernel would refuse the namespace. */
static void change(int which)
{
    gid_t group = getgid();
    uid_t user = getuid();
    switch (which) {
    case 0:
        require(unshare(CLONE_THREAD) == 0); /* to be alone is all that it asks for */
        break;
    case 1:
        require(setns(-1, CLONE_NEWUSER) == -1 && errno == EBADF);
        break;
    case 2:
        require(setuid(user) == 0);
        break;
    case 3:
        require(seteuid(user) == 0);
        break;
    case 4:
        require(setreuid(user, user) == 0);
        break;
    case 5:
        require(setresuid(user, user, user) == 0);
        break;
    case 6:
        require(setgid(group) == 0);
        break;
    case 7:
        require(setegid(group) == 0);
        break;
    case 8:
        require(setregid(group, group) == 0);
        break;
    case 9:
        require(setresgid(group, group, group) == 0);
        break;
    default:
        require(setgroups(1, &group) == 0 || errno == EPERM);
    }
}

static void alone_before_changes(void)
{
    enum { KINDS = 11, TRIES = 5, MOST = 600 };
    int late = 0;
    fill_for_helpers();
    for (int i = 0; late < TRIES * KINDS && i < MOST; i++) {
        malloc_trim(0);
        late += has_helper();
        change(i % KINDS);
        require(!has_helper());
    }
    if (late == 0)
        skip("no helper was late");
}

static void late_helper(void)
{
    pid_t traced = fork(), thread;
    int status;
    if (traced == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            skip("tracing is not allowed here");
        raise(SIGSTOP);
        fork_beside_helper();
    }
    require(waitpid(traced, &status, 0) == traced);
    if (WIFEXITED(status))
        exit(WEXITSTATUS(status));
    require(ptrace(PTRACE_SETOPTIONS, traced, NULL, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) == 0);
    ptrace(PTRACE_CONT, traced, NULL, NULL);
    while ((thread = waitpid(-1, &status, __WALL)) != traced || WIFSTOPPED(status)) {
        require(thread > 0);
        long number = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        if (thread == traced)
            ptrace(PTRACE_CONT, traced, NULL, number);
    }
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
}

/* Where collections are given up again and again, frees give memory back. */
static void use_and_free(int blocks)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < blocks; i++)
        free(memset(malloc(1000), 1, 1000));
    getrusage(RUSAGE_SELF, &after);
    require(after.ru_maxrss < before.ru_maxrss + 100 * 1024);
}

/* What the kernel tells of a process, it refuses to one that has changed its user. */
static void privileges_given_up(void)
{
    if (getuid() != 0)
        skip("only the superuser has privileges to give up");
    require(setgid(65534) == 0 && setuid(65534) == 0);
    require_collections();
    pid_t child = fork();
    if (child == 0) { /* to which the kernel tells nothing any more */
        use_and_free(200000);
        exit(0);
    }
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
}

static void privileges_given_up_by_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        privileges_given_up();
        exit(0);
    }
    int status;
    require(waitpid(child, &status, 0) == child && WIFEXITED(status));
    exit(WEXITSTATUS(status));
}

static void hidden(void)
{
    require(prctl(PR_SET_DUMPABLE, 0) == 0);
    require_collections();
}

/* From the start as a user with no rights, of whom the kernel then keeps it. */
static void hidden_from_user(void)
{
    if (getuid() != 0)
        hidden();
    require(setgid(65534) == 0 && setuid(65534) == 0);
    const char *library = getenv("LD_PRELOAD");
    if (library && access(library, R_OK) != 0)
        skip("this user may not read the library");
    execl("/proc/self/exe", "world", "hidden", NULL);
    skip("this user may not read the program");
}

/* A vfork child has its parent's memory, but enters its sandbox alone. */
static void sandboxed_child(void)
{
    pid_t child = vfork();
    if (child == 0)
        _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : 99);
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
    require_collections();
}

enum { FREED = 40 };

__attribute__((noinline)) static void free_some(struct disguised freed[FREED])
{
    for (int i = 0; i < FREED; i++) {
        void *block = signed_block();
        freed[i] = disguise(block);
        free(block);
    }
}

/* In the sandbox frees count again. A second free, of a block that a collection has reclaimed after
 * the first, is found there as it was before. */
static void freed_in_sandbox(void)
{
    struct disguised freed[FREED];
    free_some(freed);
    clean_stack();
    malloc_trim(0);
    int reclaimed = 0;
    while (reclaimed < FREED && malloc_usable_size(reveal(freed[reclaimed])) > 0)
        reclaimed++;
    require(reclaimed < FREED);
    pid_t child = fork();
    if (child == 0) {
        require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        free(reveal(freed[reclaimed]));
        _exit(0);
    }
    int status;
    require(waitpid(child, &status, 0) == child);
    require(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* Mappings that are not what they seem. */

static void guard_pages(void)
{
    enum { INSTALL_GUARD = 102 };
    char *mapping = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(mapping != MAP_FAILED);
    *(void *volatile *)mapping = signed_block();
    struct disguised mine = disguise(*(void **)mapping);
    if (madvise(mapping + 8192, 65536, INSTALL_GUARD) != 0)
        skip("this kernel has no guard pages");
    collect();
    require(is_kept(mine));
}

/* What lies behind the block is nobody's: a pointer to its start would be to the block's end. */
__attribute__((noinline)) static struct disguised lose_mapping(size_t behind)
{
    require(mmap(NULL, behind, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    void *block = malloc((size_t)64 << 20);
    require(block != NULL);
    return disguise(block);
}

/* The collector knows where the heap ends, and what lies there is not kept for it. An old word may
 * point to such a block by chance; so there are some, at different addresses. */
static void dead_at_the_end(void)
{
    enum { CHILDREN = 6 };
    int dead = 0, status;
    collect();
    for (size_t i = 1; i <= CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct disguised lost = lose_mapping(i * ((size_t)96 << 20));
            collect();
            _exit(malloc_usable_size(reveal(lost)) != 0);
        }
        require(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
        dead += WEXITSTATUS(status) == 0;
    }
    require(dead > 0);
}

/* The child cannot know what the other threads were doing, so it does not collect. If it ignored
 * frees all the same it would grow for ever. */
static void forked_by_number(void)
{
    enum { BLOCKS = 1000000, BLOCK_BYTES = 300 };
    int status;
    collect();
    pid_t child = (pid_t)syscall(SYS_fork);
    if (child == 0) {
        struct rusage used;
        for (int i = 0; i < BLOCKS; i++) {
            char *volatile block = malloc(BLOCK_BYTES);
            *block = 1;
            free(block);
        }
        getrusage(RUSAGE_SELF, &used);
        _exit(used.ru_maxrss > BLOCKS / 1024 * BLOCK_BYTES / 3);
    }
    require(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    require_collections(); /* the parent's go on */
}

static void reserved_terabytes(void)
{
    char *mapping = mmap(NULL, (size_t)8 << 40, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(mapping != MAP_FAILED);
    mapping[(size_t)5 << 40] = 1;
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 3; i++) /* not collect(): what it allocates may have many more follow */
        malloc_trim(0);
    getrusage(RUSAGE_SELF, &after);
    require(after.ru_maxrss < before.ru_maxrss + 64 * 1024);
}

/* What GHC's programs and WebAssembly's have. On a kernel without scans it takes minutes to ask for
 * every page of it ten times. */
static void inaccessible_terabytes(void)
{
    enum { PAGE = 4096 };
    char *mapping =
        mmap(NULL, (size_t)8 << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(mapping != MAP_FAILED);
    require(mprotect(mapping, PAGE, PROT_READ | PROT_WRITE) == 0);
    *(void *volatile *)mapping = signed_block();
    struct disguised block = disguise(*(void **)mapping);
    for (int i = 0; i < 10; i++)
        collect();
    require(is_kept(block));
}

/* To ask for every page of it would take half a minute. */
static void shared_terabyte(void)
{
    void *volatile *mapping = mmap(NULL, (size_t)1 << 40, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(mapping != MAP_FAILED);
    mapping[(size_t)1 << 36] = signed_block();
    struct disguised block = disguise(mapping[(size_t)1 << 36]);
    for (int i = 0; i < 10; i++)
        collect();
    require(is_kept(block));
}

static void every_descriptor_closed(void)
{
    malloc_trim(0);
    for (int descriptor = 3; descriptor < 2000; descriptor++)
        close(descriptor);
    char name[] = "/tmp/trapXXXXXX";
    int first = mkstemp(name);
    for (int descriptor = 3; descriptor < 1100; descriptor++)
        dup2(first, descriptor);
    unlink(name);
    void *volatile block = signed_block();
    struct disguised mine = disguise(block);
    collect();
    require(is_kept(mine) && block);
    require(lseek(first, 0, SEEK_END) == 0);
}

static void kernel_worker(void)
{
    struct io_uring_params parameters = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 10000};
    long ring = syscall(SYS_io_uring_setup, 8, &parameters);
    if (ring < 0)
        skip("io_uring is not allowed here");
    void *volatile block = signed_block();
    struct disguised mine = disguise(block);
    for (int i = 0; i < 10; i++)
        collect();
    require(is_kept(mine) && block);
    require_collections(); /* which are given up when it is waited for */
}

static void *load_and_unload(void *unused)
{
    while (!stop) {
        void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        require(library != NULL);
        dlclose(library);
    }
    return unused;
}

static void libraries(void)
{
    pthread_t thread = start(load_and_unload);
    for (int i = 0; i < 300; i++)
        malloc_trim(0);
    stop = 1;
    pthread_join(thread, NULL);
}

static void *map_and_unmap(void *unused)
{
    while (!stop) {
        void *mapping =
            mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(mapping, 1, 65536);
        munmap(mapping, 65536);
    }
    return unused;
}

static void mappings(void)
{
    pthread_t thread = start(map_and_unmap);
    for (int i = 0; i < 300; i++)
        malloc_trim(0);
    stop = 1;
    pthread_join(thread, NULL);
}

static void wait_any(void)
{
    waiting_for(wait_for_any_signal);
}

static void signal_descriptor(void)
{
    waiting_for(read_signal_descriptor);
}

/* Where frees are ignored a block may be freed again: when frees count, or because it was pinned
 * since. What comes in its place is a live block, and what that points to is kept. */

enum { AGAIN = 200, TAKEN = 4000 };
static char *volatile again[AGAIN];

static void *hear_nothing(void *unused)
{
    uint64_t all = ~UINT64_C(0);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, NULL, sizeof all);
    stop = 1;
    while (stop == 1)
        usleep(100);
    return unused;
}

static pthread_t start_giving_up(void)
{
    pthread_t deaf = start(hear_nothing);
    while (stop == 0)
        usleep(100);
    for (int i = 0; i < 3; i++)
        malloc_trim(0);
    return deaf;
}

__attribute__((noinline)) static void free_first(void)
{
    for (int i = 0; i < AGAIN; i++)
        again[i] = signed_block();
    for (int i = 0; i < AGAIN; i++)
        free(again[i]);
}

__attribute__((noinline)) static void put_behind(char *block, struct disguised *behind)
{
    void *only = signed_block();
    *behind = disguise(only);
    memcpy(block + 24, &only, sizeof only);
}

__attribute__((noinline)) static int take_their_places(bool taken[AGAIN])
{
    int count = 0;
    for (int i = 0; i < TAKEN; i++) {
        char *block = malloc(TRAP_BYTES);
        for (int place = 0; place < AGAIN; place++)
            if (block == again[place])
                taken[place] = ++count > 0;
    }
    return count;
}

static void require_places_are_live(void)
{
    bool taken[AGAIN] = {false};
    struct disguised behind[AGAIN];
    require(take_their_places(taken) >= AGAIN / 2);
    for (int i = 0; i < AGAIN; i++)
        if (taken[i])
            put_behind(again[i], &behind[i]);
    collect();
    require_collections();
    for (int i = 0; i < AGAIN; i++)
        require(!taken[i] || is_kept(behind[i]));
}

static void hear_again(pthread_t deaf)
{
    stop = 2;
    pthread_join(deaf, NULL);
}

static void freed_again(void)
{
    free_first();
    pthread_t deaf = start_giving_up();
    for (int i = 0; i < AGAIN; i++)
        free(again[i]);
    hear_again(deaf);
    require_places_are_live();
}

static void *free_again(void *unused)
{
    for (int i = 0; i < AGAIN; i++)
        free(again[i]);
    return unused;
}

static void freed_again_elsewhere(void)
{
    free_first();
    pthread_t deaf = start_giving_up();
    pthread_join(start(free_again), NULL);
    hear_again(deaf);
    require_places_are_live();
}

static void resized_again(void)
{
    free_first();
    pthread_t deaf = start_giving_up();
    for (int i = 0; i < AGAIN; i++)
        require(realloc(again[i], 3 * TRAP_BYTES) != NULL);
    hear_again(deaf);
    require_places_are_live();
}

/* The program goes on with a block that stays where it is. */
static void resized_in_place(void)
{
    struct disguised behind[AGAIN];
    free_first();
    for (int i = 0; i < AGAIN; i++) {
        require(realloc(again[i], TRAP_BYTES - 8) == again[i]);
        put_behind(again[i], &behind[i]);
    }
    collect();
    require_collections();
    for (int i = 0; i < AGAIN; i++)
        require(is_kept(behind[i]));
}

static void freed_again_pinned(void)
{
    int ends[2], epoll = epoll_create1(0);
    require(pipe(ends) == 0);
    free_first();
    for (int i = 0; i < AGAIN; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = again[i]};
        require(epoll_ctl(epoll, EPOLL_CTL_ADD, dup(ends[0]), &event) == 0);
    }
    for (int i = 0; i < AGAIN; i++)
        free(again[i]);
    require_places_are_live();
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        {"epoll", epoll_data},
        {"signal-values", signal_values},
        {"signal-by-descriptor", signal_by_descriptor},
        {"streams", streams},
        {"queued-for-thread", queued_for_thread},
        {"message-queue", message_queue},
        {"pins-end", pins_end},
        {"real-time-signals", real_time_signals},
        {"sigwait", wait_any},
        {"signalfd", signal_descriptor},
        {"setuid-and-cancel", setuid_and_cancel},
        {"handler-replaced", handler_replaced},
        {"forks", forks},
        {"spawns", spawns},
        {"shared-across-fork", shared_across_fork},
        {"mapped-after-fork", mapped_after_fork},
        {"late-helper", late_helper},
        {"alone-before-changes", alone_before_changes},
        {"privileges-given-up", privileges_given_up},
        {"privileges-given-up-by-child", privileges_given_up_by_child},
        {"hidden", hidden},
        {"hidden-from-user", hidden_from_user},
        {"sandboxed-child", sandboxed_child},
        {"freed-in-sandbox", freed_in_sandbox},
        {"freed-again", freed_again},
        {"freed-again-elsewhere", freed_again_elsewhere},
        {"freed-again-pinned", freed_again_pinned},
        {"resized-again", resized_again},
        {"resized-in-place", resized_in_place},
        {"guard-pages", guard_pages},
        {"dead-at-the-end", dead_at_the_end},
        {"forked-by-number", forked_by_number},
        {"reserved-terabytes", reserved_terabytes},
        {"inaccessible-terabytes", inaccessible_terabytes},
        {"shared-terabyte", shared_terabyte},
        {"descriptors", every_descriptor_closed},
        {"kernel-worker", kernel_worker},
        {"ring-user-data", ring_user_data},
        {"ring-buffers", ring_buffers},
        {"libraries", libraries},
        {"mappings", mappings},
    };
    require(count == 2 || (count == 3 && !strcmp(arguments[2], "without-scans")));
    if (count == 3)
        refuse_scans();
    pass_first_blocks();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(arguments[1], parts[i].name)) {
            parts[i].run();
            return 0;
        }
    require(!"a known part");
}
