/* SPDX-License-Identifier: MIT
 *
 * waits.c: a collection every millisecond while another thread waits in the kernel.
 *
 * A wait without a limit must not end in EINTR for it; one with a limit, and a sleep, must neither
 * do so nor be cut short or drawn out. A signal of the program's ends a wait as ever. The argument
 * names the wait.
 */
#include <aio.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/gc/traps/in_call.h"
#include "tests/gc/traps/tcp.h"
#include "tests/gc/traps/trap.h"

enum { COLLECTIONS = 150 };

static int ends[2];
static sem_t semaphore;
static const char *wait_name;
static _Atomic int done;

/* libc's second names. */
int __poll(struct pollfd *descriptors, nfds_t count, int timeout_ms);
int __nanosleep(const struct timespec *time, struct timespec *left);
ssize_t __write(int descriptor, const void *buffer, size_t bytes);
ssize_t __send(int descriptor, const void *buffer, size_t bytes, int flags);

static double seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* As libraries for them make these calls: libc has no functions for them, and through its
 * `syscall` the number is not seen. */
static inline long wait_for_event(int number, long first, long second, long third, long fourth)
{
    long result;
    register long r10 __asm__("r10") = fourth;
    register long r8 __asm__("r8") = 0;
    __asm__ volatile("mov %[number], %%eax\n\tsyscall"
                     : "=a"(result)
                     : [number] "i"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

static void wait_for_ring(void)
{
    struct io_uring_params ring = {0};
    long opened = syscall(SYS_io_uring_setup, 8, &ring);
    if (opened < 0)
        skip("io_uring is not allowed here");
    char *memory = mmap(NULL, ring.sq_off.array + 32, PROT_READ | PROT_WRITE, MAP_SHARED,
                        (int)opened, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entries = mmap(NULL, 8 * sizeof *entries, PROT_READ | PROT_WRITE,
                                        MAP_SHARED, (int)opened, IORING_OFF_SQES);
    require(memory != MAP_FAILED && entries != MAP_FAILED);
    entries[0] =
        (struct io_uring_sqe){.opcode = IORING_OP_POLL_ADD, .fd = ends[0], .poll32_events = POLLIN};
    *(unsigned *)(void *)(memory + ring.sq_off.tail) = 1;
    require(syscall(SYS_io_uring_enter, opened, 1, 0, 0, NULL, 0) == 1);
    require(wait_for_event(SYS_io_uring_enter, opened, 0, 1, IORING_ENTER_GETEVENTS) == 0);
}

static void wait_for_aio(void)
{
    aio_context_t context = 0;
    struct iocb request = {
        .aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = (uint32_t)ends[0], .aio_buf = POLLIN};
    struct iocb *requests[] = {&request};
    struct io_event event;
    if (syscall(SYS_io_setup, 8, &context) != 0)
        skip("this kernel has no asynchronous requests");
    require(syscall(SYS_io_submit, context, 1, requests) == 1);
    require(wait_for_event(SYS_io_getevents, (long)context, 1, 1, (long)&event) == 1);
}

static void wait_for_pipe(void)
{
    struct pollfd descriptor = {.fd = ends[0], .events = POLLIN};
    if (!strcmp(wait_name, "poll")) {
        require(poll(&descriptor, 1, -1) == 1);
    } else if (!strcmp(wait_name, "ppoll")) {
        require(ppoll(&descriptor, 1, NULL, NULL) == 1);
    } else if (!strcmp(wait_name, "select")) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        require(select(ends[0] + 1, &set, NULL, NULL, NULL) == 1);
    } else if (!strcmp(wait_name, "read")) {
        char byte;
        require(read(ends[0], &byte, 1) == 1);
    } else if (!strcmp(wait_name, "ring")) {
        wait_for_ring();
    } else if (!strcmp(wait_name, "aio")) {
        wait_for_aio();
    } else {
        struct epoll_event event = {.events = EPOLLIN};
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        require(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
        require(epoll_wait(epoll, &event, 1, -1) == 1);
    }
}

enum { WAIT_MS = 400 };

/* Sockets with a limit of their own. */
static const char *const socket_waits[] = {
    "recv-limit", "recvfrom-limit", "recvmsg-limit", "accept-limit",   "accept4-limit",
    "send-limit", "sendmsg-limit",  "sendto-limit",  "recvmmsg-limit", "sendmmsg-limit"};

static bool is_socket_wait(void)
{
    for (size_t i = 0; i < sizeof socket_waits / sizeof *socket_waits; i++)
        if (!strcmp(wait_name, socket_waits[i]))
            return true;
    return false;
}

static void fill(int descriptor)
{
    char bytes[4096] = {0};
    while (send(descriptor, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    require(errno == EAGAIN);
}

static long wait_on_socket(void)
{
    char byte = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    bool sends = !strncmp(wait_name, "send", 4), accepts = !strncmp(wait_name, "accept", 6);
    struct timeval limit = {.tv_usec = WAIT_MS * 1000};
    int pair[2], listening = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr unnamed = {.sa_family = AF_UNIX};
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    require(bind(listening, &unnamed, sizeof unnamed.sa_family) == 0 && listen(listening, 1) == 0);
    int waiting = accepts ? listening : pair[0];
    require(setsockopt(waiting, SOL_SOCKET, sends ? SO_SNDTIMEO : SO_RCVTIMEO, &limit,
                       sizeof limit) == 0);
    if (sends)
        fill(waiting);
    if (!strcmp(wait_name, "recvmmsg-limit"))
        return recvmmsg(waiting, &(struct mmsghdr){.msg_hdr = message}, 1, 0, NULL);
    if (!strcmp(wait_name, "sendmmsg-limit"))
        return sendmmsg(waiting, &(struct mmsghdr){.msg_hdr = message}, 1, 0);
    switch (wait_name[accepts ? 6 : 4]) {
    case '4':
        return accept4(waiting, NULL, NULL, SOCK_CLOEXEC);
    case 'f':
        return recvfrom(waiting, &byte, 1, 0, NULL, NULL);
    case 't':
        return sendto(waiting, &byte, 1, 0, NULL, 0);
    case 'm':
        return sends ? sendmsg(waiting, &message, 0) : recvmsg(waiting, &message, 0);
    default:
        return accepts ? accept(waiting, NULL, NULL)
               : sends ? send(waiting, &byte, 1, 0)
                       : recv(waiting, &byte, 1, 0);
    }
}

/* Waits with a limit: WAIT_MS, or a point in time that far off. Each returns whether it has ended
 * so.
 */
static struct timespec span(void)
{
    return (struct timespec){.tv_nsec = WAIT_MS * 1000000};
}

static struct timespec point(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += WAIT_MS * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static bool in_poll(void)
{
    errno = 0;
    return poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, WAIT_MS) == 0 && errno == 0;
}

static bool in_poll_other_name(void)
{
    return __poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, WAIT_MS) == 0;
}

static bool in_ppoll(void)
{
    struct timespec time = span();
    struct pollfd descriptor = {.fd = ends[0], .events = POLLIN};
    return ppoll(&descriptor, 1, &time, NULL) == 0 && time.tv_nsec == span().tv_nsec;
}

static bool in_select(void)
{
    return select(0, NULL, NULL, NULL, &(struct timeval){.tv_usec = WAIT_MS * 1000}) == 0;
}

static int epoll_of_pipe(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    require(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    return epoll;
}

static bool in_epoll(void)
{
    return epoll_wait(epoll_of_pipe(), &(struct epoll_event){0}, 1, WAIT_MS) == 0;
}

static bool in_epoll_signals(void)
{
    return epoll_pwait(epoll_of_pipe(), &(struct epoll_event){0}, 1, WAIT_MS, NULL) == 0;
}

static bool in_epoll_span(void)
{
    struct timespec time = span();
    return epoll_pwait2(epoll_of_pipe(), &(struct epoll_event){0}, 1, &time, NULL) == 0;
}

static bool in_semtimedop(void)
{
    struct timespec time = span();
    struct sembuf take = {.sem_op = -1};
    int set = semget(IPC_PRIVATE, 1, 0600);
    if (set < 0)
        skip("semaphores of System V are not allowed here");
    int result = semtimedop(set, &take, 1, &time), error = errno;
    semctl(set, 0, IPC_RMID);
    return result == -1 && error == EAGAIN;
}

static bool in_sigtimedwait(void)
{
    struct timespec time = span();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return sigtimedwait(&set, NULL, &time) == -1 && errno == EAGAIN;
}

static bool in_aio_suspend(void)
{
    static char byte;
    static struct aiocb request = {.aio_buf = &byte, .aio_nbytes = 1};
    const struct aiocb *requests[] = {&request};
    struct timespec time = span();
    request.aio_fildes = ends[0];
    require(aio_read(&request) == 0);
    return aio_suspend(requests, 1, &time) == -1 && errno == EAGAIN;
}

static bool in_nanosleep(void)
{
    struct timespec time = span();
    return nanosleep(&time, &time) == 0;
}

static bool in_nanosleep_no_rest(void)
{
    struct timespec time = span();
    return nanosleep(&time, NULL) == 0;
}

static bool in_nanosleep_other_name(void)
{
    struct timespec time = span();
    return __nanosleep(&time, NULL) == 0;
}

static bool in_clock_nanosleep(void)
{
    struct timespec time = point(CLOCK_MONOTONIC);
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == 0;
}

static bool in_clock_nanosleep_no_rest(void)
{
    struct timespec time = span();
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL) == 0;
}

static bool in_thrd_sleep(void)
{
    struct timespec time = span();
    return thrd_sleep(&time, NULL) == 0;
}

static bool in_sleep(void)
{
    double begun = seconds(CLOCK_MONOTONIC);
    return sleep(1) == 0 && seconds(CLOCK_MONOTONIC) - begun > 0.99;
}

static bool in_usleep(void)
{
    return usleep(WAIT_MS * 1000) == 0;
}

static bool in_condition(void) /* a futex that waits for a time */
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec time = point(CLOCK_REALTIME);
    int result;
    pthread_mutex_lock(&mutex);
    while ((result = pthread_cond_timedwait(&condition, &mutex, &time)) == 0)
        ;
    return result == ETIMEDOUT;
}

static bool in_sem_timedwait(void)
{
    struct timespec time = point(CLOCK_REALTIME);
    return sem_timedwait(&semaphore, &time) == -1 && errno == ETIMEDOUT;
}

static bool in_socket(void)
{
    return wait_on_socket() == -1 && errno == EAGAIN;
}

/* A sleep that no handler ends says nothing of what is left. */
static bool in_sleep_again(void)
{
    struct timespec time = {.tv_nsec = 2000000}, other = time, rest = {.tv_sec = 1234};
    for (int slept_ms = 0; slept_ms < WAIT_MS; slept_ms += 4) {
        require(nanosleep(&time, &time) == 0 && time.tv_nsec == other.tv_nsec);
        require(clock_nanosleep(CLOCK_MONOTONIC, 0, &other, &rest) == 0 && rest.tv_sec == 1234);
    }
    return true;
}

typedef bool limited_wait(void);

static limited_wait *find_limited_wait(void)
{
    static const struct {
        const char *name;
        limited_wait *wait;
    } limited[] = {
        {"poll-limit", in_poll},
        {"poll-other-name", in_poll_other_name},
        {"ppoll-limit", in_ppoll},
        {"select-limit", in_select},
        {"epoll-limit", in_epoll},
        {"epoll-signals-limit", in_epoll_signals},
        {"epoll-span", in_epoll_span},
        {"semtimedop", in_semtimedop},
        {"sigtimedwait", in_sigtimedwait},
        {"aio-suspend", in_aio_suspend},
        {"nanosleep", in_nanosleep},
        {"sleep-again", in_sleep_again},
        {"nanosleep-no-rest", in_nanosleep_no_rest},
        {"nanosleep-other-name", in_nanosleep_other_name},
        {"clock-nanosleep", in_clock_nanosleep},
        {"clock-nanosleep-no-rest", in_clock_nanosleep_no_rest},
        {"thrd-sleep", in_thrd_sleep},
        {"sleep", in_sleep},
        {"usleep", in_usleep},
        {"condition-limit", in_condition},
        {"sem-timedwait", in_sem_timedwait},
    };
    for (size_t i = 0; i < sizeof limited / sizeof *limited; i++)
        if (!strcmp(wait_name, limited[i].name))
            return limited[i].wait;
    return is_socket_wait() ? in_socket : NULL;
}

static void sleep_for_a_while(limited_wait *wait)
{
    double begun = seconds(CLOCK_MONOTONIC);
    require(wait());
    double slept = seconds(CLOCK_MONOTONIC) - begun;
    require(slept > (WAIT_MS - 10) * 1e-3); /* and one that begins anew each time never ends */
}

static void *wait_in_kernel(void *unused)
{
    if (!strcmp(wait_name, "sem-wait"))
        require(sem_wait(&semaphore) == 0);
    else if (find_limited_wait())
        sleep_for_a_while(find_limited_wait());
    else
        wait_for_pipe();
    done = 1;
    return unused;
}

/* Signals to a thread that waits for nothing else, some of which come while the world is stopped:
 * from a timer, since all other threads are stopped too. A signal is lost when its handler has run
 * and the thread waits again, in the same wait. */

enum { SIGNALS = 100 };
static _Atomic pid_t waiter;
static _Atomic int waits_ended, handled;

static void on_signal(int number)
{
    (void)number;
    handled++;
}

static void *wait_for_signals(void *unused)
{
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    waiter = gettid();
    for (; waits_ended < SIGNALS; waits_ended++)
        require(pause() == -1 && errno == EINTR);
    done = 1;
    return unused;
}

static _Atomic bool collects;

/* On a busy machine this thread may get its first moment when all else is over. */
static void *collect_all_the_time(void *unused)
{
    while (!done) {
        malloc_trim(0);
        collects = true;
    }
    return unused;
}

static void start_collecting(pthread_t *collector)
{
    require(pthread_create(collector, NULL, collect_all_the_time, NULL) == 0);
    while (!collects)
        sched_yield();
}

/* Each stop takes a good part of such a sleep, and counts as slept: else the sleep would hardly
 * end. (tests/gc/world/test_stop.c sees that, too.) But it counts no more than it took. */
static void short_sleeps(void)
{
    enum { SLEEPS = 20 };
    pthread_t collector;
    const struct timespec time = {.tv_nsec = 3000000};
    start_collecting(&collector);
    for (int i = 0; i < SLEEPS; i++) {
        struct timespec begun, ended, left = time;
        struct timeval limit = {.tv_usec = 3000};
        clock_gettime(CLOCK_MONOTONIC, &begun);
        require(usleep(3000) == 0 && nanosleep(&time, NULL) == 0 && nanosleep(&left, &left) == 0);
        require(clock_nanosleep(CLOCK_REALTIME, 0, &time, NULL) == 0);
        require(thrd_sleep(&time, NULL) == 0 && select(0, NULL, NULL, NULL, &limit) == 0);
        require(pselect(0, NULL, NULL, NULL, &time, NULL) == 0 && ppoll(NULL, 0, &time, NULL) == 0);
        require(poll(NULL, 0, 3) == 0);
        clock_gettime(CLOCK_MONOTONIC, &ended);
        require((ended.tv_sec - begun.tv_sec) * 1000000000 + ended.tv_nsec - begun.tv_nsec >=
                9 * time.tv_nsec);
    }
    done = 1;
    require(pthread_join(collector, NULL) == 0);
}

static void signals_end_waits(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    require(sigaction(SIGALRM, &action, NULL) == 0);
    require(pthread_sigmask(SIG_BLOCK, &alarm, NULL) == 0);
    int lost = 0;
    pthread_t thread, collector;
    require(pthread_create(&thread, NULL, wait_for_signals, NULL) == 0);
    start_collecting(&collector);
    for (int sent = 0; sent < SIGNALS; sent++) {
        while (!waiter || waits_ended < sent || call_of(waiter) != SYS_pause)
            sched_yield();
        struct itimerval timer = {.it_value.tv_usec = 1 + sent * 31 % 3000};
        int before = handled;
        require(setitimer(ITIMER_REAL, &timer, NULL) == 0);
        for (; waits_ended == sent; sched_yield())
            if (handled > before && call_of(waiter) == SYS_pause && waits_ended == sent) {
                lost++;
                before = handled;
                require(setitimer(ITIMER_REAL, &timer, NULL) == 0);
            }
    }
    require(pthread_join(thread, NULL) == 0 && pthread_join(collector, NULL) == 0);
    require(lost == 0);
}

/* A thread is stopped as it is about to call io_uring_enter with a bad pointer, which is the
 * kernel's to refuse. It comes there out of a handler, in which the stop's signal is blocked: so
 * that is delivered in the moment of the handler's return. */

static _Atomic bool stop_is_awaited;

static void await_stop(int signal_number, siginfo_t *info, void *context)
{
    enum { STOP_SIGNAL = 33 };
    (void)signal_number, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uint64_t all = ~UINT64_C(0), pending = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
    stop_is_awaited = true;
    while (!(pending >> (STOP_SIGNAL - 1) & 1))
        syscall(SYS_rt_sigpending, &pending, sizeof pending);
    registers[REG_RAX] = SYS_io_uring_enter;
    registers[REG_RDI] = -1; /* no ring: nothing is looked at */
    registers[REG_R10] = IORING_ENTER_EXT_ARG;
    registers[REG_R8] = 4096;
    registers[REG_R9] = 24;
}

static void *enter_ring(void *unused)
{
    long result;
    long process = getpid(), thread = gettid(), number = SIGUSR1;
    /* The first sends the signal, the second is what the handler makes of it. */
    __asm__ volatile("syscall\n\tsyscall"
                     : "=a"(result), "+D"(process), "+S"(thread), "+d"(number)
                     : "a"(SYS_tgkill)
                     : "rcx", "r8", "r9", "r10", "r11", "memory");
    require(result == -EBADF || result == -ENOSYS || result == -EPERM);
    return unused;
}

static void bad_ring_argument(void)
{
    struct sigaction action = {.sa_sigaction = await_stop, .sa_flags = SA_SIGINFO};
    require(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        stop_is_awaited = false;
        require(pthread_create(&thread, NULL, enter_ring, NULL) == 0);
        while (!stop_is_awaited)
            sched_yield();
        malloc_trim(0);
        require(pthread_join(thread, NULL) == 0);
    }
}

/* More bytes than fit are written, sent or received at once, whatever happens meanwhile. */

enum { MANY_BYTES = 1 << 20 };

/* In parts of odd sizes, one of them empty; each byte tells where it belongs. */
enum { PARTS = 7 };

static struct msghdr message_of(char *bytes, struct iovec *parts)
{
    char *at = bytes;
    for (int i = 0; i < PARTS; i++) {
        parts[i] = (struct iovec){at, i == 2 ? 0 : 100003 + 20001 * (size_t)i};
        at += parts[i].iov_len;
    }
    parts[PARTS - 1].iov_len += (size_t)(bytes + MANY_BYTES - at);
    return (struct msghdr){.msg_iov = parts, .msg_iovlen = PARTS};
}

static char byte_at(long offset)
{
    return (char)(offset * 31 / 7);
}

static void *write_many(void *unused)
{
    char *bytes = malloc(MANY_BYTES);
    struct iovec parts[PARTS];
    struct msghdr message = message_of(bytes, parts);
    for (long i = 0; i < MANY_BYTES; i++)
        bytes[i] = byte_at(i);
    const char *way = wait_name + strlen("long-");
    require((!strcmp(way, "write")               ? write(ends[1], bytes, MANY_BYTES)
             : !strcmp(way, "write-other-name")  ? __write(ends[1], bytes, MANY_BYTES)
             : !strcmp(way, "write-parts")       ? writev(ends[1], parts, PARTS)
             : !strcmp(way, "write-at-position") ? pwritev2(ends[1], parts, PARTS, -1, 0)
             : !strcmp(way, "send")              ? send(ends[1], bytes, MANY_BYTES, 0)
             : !strcmp(way, "send-other-name")   ? __send(ends[1], bytes, MANY_BYTES, 0)
                                                 : sendmsg(ends[1], &message, 0)) == MANY_BYTES);
    return unused;
}

static void *receive_many(void *unused)
{
    char *bytes = calloc(1, MANY_BYTES);
    struct iovec parts[PARTS];
    struct msghdr message = message_of(bytes, parts);
    require((!strcmp(wait_name, "long-receive")
                 ? recv(ends[1], bytes, MANY_BYTES, MSG_WAITALL)
                 : recvmsg(ends[1], &message, MSG_WAITALL)) == MANY_BYTES);
    for (long i = 0; i < MANY_BYTES; i++)
        require(bytes[i] == byte_at(i));
    return unused;
}

/* A peek for more than is there: pairs of Unix do not wait for it, so TCP. */

enum { PEEKED_BYTES = 20000, SENT_BYTES = 200 };

static void *peek(void *unused)
{
    char *bytes = calloc(1, PEEKED_BYTES);
    struct iovec parts[] = {{bytes, 777}, {bytes + 777, PEEKED_BYTES - 777}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    require((!strcmp(wait_name, "peek")
                 ? recv(ends[1], bytes, PEEKED_BYTES, MSG_WAITALL | MSG_PEEK)
                 : recvmsg(ends[1], &message, MSG_WAITALL | MSG_PEEK)) == PEEKED_BYTES);
    for (long i = 0; i < PEEKED_BYTES; i++)
        require(bytes[i] == byte_at(i));
    return unused;
}

static void peek_while_collecting(void)
{
    char bytes[SENT_BYTES];
    pthread_t thread;
    connect_by_tcp(&ends[0], &ends[1]);
    require(pthread_create(&thread, NULL, peek, NULL) == 0);
    for (long sent = 0; sent < PEEKED_BYTES; sent += SENT_BYTES) {
        for (long i = 0; i < SENT_BYTES; i++)
            bytes[i] = byte_at(sent + i);
        require(send(ends[0], bytes, SENT_BYTES, 0) == SENT_BYTES);
        usleep(1000);
        malloc_trim(0);
    }
    require(pthread_join(thread, NULL) == 0);
}

static long pass_some(bool receives, long offset)
{
    static char bytes[16384];
    for (long i = 0; i < (long)sizeof bytes; i++)
        bytes[i] = byte_at(offset + i);
    if (receives)
        return send(ends[0], bytes, sizeof bytes, 0);
    long done = read(ends[0], bytes, sizeof bytes);
    for (long i = 0; i < done; i++)
        require(bytes[i] == byte_at(offset + i));
    return done;
}

/* Short messages to a slow reader. */

enum { SHORT_BYTES = 3000, SHORT_MESSAGES = 200 };

static void *write_short(void *unused)
{
    char bytes[SHORT_BYTES];
    for (long i = 0; i < SHORT_MESSAGES; i++) {
        for (long at = 0; at < SHORT_BYTES; at++)
            bytes[at] = byte_at(i * SHORT_BYTES + at);
        require((i % 2 ? write(ends[1], bytes, SHORT_BYTES)
                       : send(ends[1], bytes, SHORT_BYTES, 0)) == SHORT_BYTES);
    }
    return unused;
}

static void write_short_messages(void)
{
    const int bytes = 4096;
    pthread_t thread;
    connect_by_tcp(&ends[0], &ends[1]);
    require(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0);
    require(pthread_create(&thread, NULL, write_short, NULL) == 0);
    for (long passed = 0, done; passed < SHORT_BYTES * SHORT_MESSAGES; passed += done) {
        char read_bytes[1000];
        malloc_trim(0);
        done = read(ends[0], read_bytes, sizeof read_bytes);
        require(done > 0);
        for (long at = 0; at < done; at++)
            require(read_bytes[at] == byte_at(passed + at));
    }
    require(pthread_join(thread, NULL) == 0);
}

/* A file takes only a part: the rest would be another write, and the limit's signal ends the
 * program. */
static void *write_to_limit(void *unused)
{
    char bytes[100] = {0};
    struct rlimit before, limit;
    int file = memfd_create("limited", MFD_CLOEXEC);
    require(file >= 0 && getrlimit(RLIMIT_FSIZE, &before) == 0);
    limit = before;
    limit.rlim_cur = 1000;
    require(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    while (!done) {
        require(lseek(file, 950, SEEK_SET) == 950);
        require(write(file, bytes, sizeof bytes) == 50);
    }
    require(setrlimit(RLIMIT_FSIZE, &before) == 0);
    return unused;
}

static void write_part_while_collecting(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, write_to_limit, NULL) == 0);
    for (int i = 0; i < COLLECTIONS; i++) {
        malloc_trim(0);
        usleep(1000);
    }
    done = 1;
    require(pthread_join(thread, NULL) == 0);
}

static void long_transfer(void)
{
    bool receives = !strncmp(wait_name, "long-receive", 12);
    pthread_t thread;
    require((!strncmp(wait_name, "long-write", 10)
                 ? pipe(ends)
                 : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) == 0);
    require(pthread_create(&thread, NULL, receives ? receive_many : write_many, NULL) == 0);
    for (long passed = 0, done; passed < MANY_BYTES; passed += done) {
        usleep(1000);
        malloc_trim(0);
        done = pass_some(receives, passed);
        require(done > 0);
    }
    require(pthread_join(thread, NULL) == 0);
}

static void wait_while_collecting(void)
{
    pthread_t thread;
    require(pipe(ends) == 0 && sem_init(&semaphore, 0, 0) == 0);
    require(pthread_create(&thread, NULL, wait_in_kernel, NULL) == 0);
    bool sleeps = find_limited_wait();
    for (int i = 0; i < COLLECTIONS || (sleeps && !done); i++) {
        malloc_trim(0);
        usleep(1000);
        require(sleeps || !done);
    }
    require(write(ends[1], "x", 1) == 1 && (sleeps || sem_post(&semaphore) == 0));
    require(pthread_join(thread, NULL) == 0);
}

/* A socket's limit is taken away by one thread while another waits, and a collection comes then. */

static void *receive_byte(void *unused)
{
    char byte;
    waiter = gettid();
    require(recv(ends[0], &byte, 1, 0) == 1);
    return unused;
}

static void lift_limit(void)
{
    pthread_t thread;
    struct timeval limit = {.tv_sec = 1000}, none = {0};
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    require(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    require(pthread_create(&thread, NULL, receive_byte, NULL) == 0);
    while (!waiter || call_of(waiter) != SYS_recvfrom)
        sched_yield();
    require(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none) == 0);
    while (call_of(waiter) != SYS_poll)
        malloc_trim(0);
    require(send(ends[1], "x", 1, 0) == 1);
    require(pthread_join(thread, NULL) == 0);
}

/* The names that begin so. */
static const struct {
    const char *beginning;
    void (*happens)(void);
} others[] = {
    {"long-", long_transfer},
    {"file-limit", write_part_while_collecting},
    {"short-writes", write_short_messages},
    {"peek", peek_while_collecting},
    {"signals", signals_end_waits},
    {"short-sleeps", short_sleeps},
    {"lifted-limit", lift_limit},
    {"bad-ring-argument", bad_ring_argument},
    {"", wait_while_collecting},
};

int main(int count, char **arguments)
{
    require(count == 2);
    wait_name = arguments[1];
    size_t i = 0;
    while (strncmp(wait_name, others[i].beginning, strlen(others[i].beginning)) != 0)
        i++;
    others[i].happens();
    return 0;
}
