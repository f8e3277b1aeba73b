/* SPDX-License-Identifier: MIT
 *
 * kernel.c: the only pointer to a block is in the kernel: in a message, in the value of a signal
 * that has not been taken yet, in a register that no code sees. The argument names where.
 */
#include <aio.h>
#include <asm/prctl.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <mqueue.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/gc/traps/trap.h"

enum { PAGE = 4096 };

static int ends[2]; /* of a pipe, or of a pair of sockets */

static void make_pipe(void)
{
    require(pipe(ends) == 0);
}

static void make_sockets(int type)
{
    require(socketpair(AF_UNIX, type, 0, ends) == 0);
}

static mqd_t make_queue(void)
{
    char name[32];
    struct mq_attr attributes = {.mq_maxmsg = 2, .mq_msgsize = 64};
    snprintf(name, sizeof name, "/trap%d", getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    if (queue == (mqd_t)-1)
        skip("this kernel has no POSIX message queues");
    mq_unlink(name);
    return queue;
}

/* Messages. Each function sends the block's address and forgets it. */

typedef ssize_t sender(const void *message, size_t bytes);

/* at: where in the message the address is. */
__attribute__((noinline)) static struct disguised give(sender *send_it, size_t at, size_t bytes)
{
    char message[256] = {0};
    void *block = signed_block();
    memcpy(message + at, &block, sizeof block);
    require(send_it(message, bytes) == (ssize_t)bytes);
    memset(message, 0, sizeof message);
    return disguise(block);
}

static void keeps_message(sender *send_it, size_t at, size_t bytes)
{
    struct disguised block = give(send_it, at, bytes);
    collect();
    require(is_kept(block));
}

static ssize_t by_write(const void *message, size_t bytes)
{
    return write(ends[1], message, bytes);
}

static ssize_t by_sendto(const void *message, size_t bytes)
{
    return sendto(ends[1], message, bytes, 0, NULL, 0);
}

static ssize_t by_writev(const void *message, size_t bytes)
{
    struct iovec parts[] = {{(void *)"begin", 5}, {(void *)message, bytes}};
    return writev(ends[1], parts, 2) - 5;
}

/* The first word, in two parts: an address lies across them. */
static ssize_t by_split_writev(const void *message, size_t bytes)
{
    char *start = (char *)message;
    struct iovec parts[] = {{start, 3}, {NULL, 0}, {start + 3, 2}, {start + 5, bytes - 5}};
    return writev(ends[1], parts, 4);
}

static ssize_t by_name_of_socket(const void *message, size_t bytes)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX}; /* "abstract": it begins with a zero */
    memcpy(name.sun_path + 1, message, bytes);
    ends[1] = socket(AF_UNIX, SOCK_STREAM, 0);
    return bind(ends[1], (struct sockaddr *)&name,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes)) == 0
               ? (ssize_t)bytes
               : -1;
}

static ssize_t by_sendmsg(const void *message, size_t bytes)
{
    struct iovec parts[] = {{(void *)"begin", 5}, {(void *)message, bytes}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
    return sendmsg(ends[1], &header, 0) - 5;
}

static ssize_t by_sendmmsg(const void *message, size_t bytes)
{
    struct iovec part = {(void *)message, bytes};
    struct mmsghdr headers[] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}};
    return sendmmsg(ends[1], headers, 1, 0) == 1 ? (ssize_t)headers[0].msg_len : -1;
}

static ssize_t by_pwrite(const void *message, size_t bytes)
{
    return pwrite(ends[1], message, bytes, 100);
}

/* libc's second names. */
ssize_t __pwrite64(int descriptor, const void *buffer, size_t bytes, off64_t at);
size_t _IO_fwrite(const void *data, size_t size, size_t count, FILE *stream);

static ssize_t by_pwrite64_other_name(const void *message, size_t bytes)
{
    return __pwrite64(ends[1], message, bytes, 100);
}

static ssize_t by_pwrite64(const void *message, size_t bytes)
{
    return pwrite64(ends[1], message, bytes, 100);
}

/* pwritev and its kin. The message is the second part. */
#define PWRITEV(name, ...)                                                       \
    static ssize_t by_##name(const void *message, size_t bytes)                  \
    {                                                                            \
        struct iovec parts[] = {{(void *)"begin", 5}, {(void *)message, bytes}}; \
        return name(ends[1], parts, 2, 100, ##__VA_ARGS__) - 5;                  \
    }
PWRITEV(pwritev)
PWRITEV(pwritev64)
PWRITEV(pwritev2, 0)
PWRITEV(pwritev64v2, 0)

static FILE *stream;

static ssize_t by_fwrite(const void *message, size_t bytes)
{
    return (ssize_t)fwrite(message, 1, bytes, stream);
}

static ssize_t by_fwrite_other_name(const void *message, size_t bytes)
{
    return (ssize_t)_IO_fwrite(message, 1, bytes, stream);
}

static ssize_t by_fwrite_unlocked(const void *message, size_t bytes)
{
    return (ssize_t)fwrite_unlocked(message, bytes, 1, stream) * (ssize_t)bytes;
}

static ssize_t by_eventfd_write(const void *message, size_t bytes)
{
    eventfd_t value;
    memcpy(&value, message, sizeof value);
    return eventfd_write(ends[1], value) == 0 ? (ssize_t)bytes : -1;
}

static mqd_t queue;

static ssize_t by_mq_send(const void *message, size_t bytes)
{
    return mq_send(queue, message, bytes, 0) == 0 ? (ssize_t)bytes : -1;
}

static ssize_t by_mq_timedsend(const void *message, size_t bytes)
{
    struct timespec limit = {0};
    return mq_timedsend(queue, message, bytes, 0, &limit) == 0 ? (ssize_t)bytes : -1;
}

static int system_v_queue; /* stays when its process has ended */

static ssize_t by_msgsnd(const void *message, size_t bytes)
{
    struct {
        long type;
        char text[256];
    } typed = {.type = 1};
    system_v_queue = msgget(IPC_PRIVATE, 0600);
    if (system_v_queue < 0)
        skip("message queues of System V are not allowed here");
    memcpy(typed.text, message, bytes);
    ssize_t sent = msgsnd(system_v_queue, &typed, bytes, 0) == 0 ? (ssize_t)bytes : -1;
    memset(&typed, 0, sizeof typed);
    return sent;
}

/* Pages that a pipe keeps when their mapping is gone. */
static ssize_t by_vmsplice(const void *message, size_t bytes)
{
    char *pages = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(pages != MAP_FAILED);
    memcpy(pages + 3000, message, bytes);
    struct iovec part = {pages, PAGE};
    require(vmsplice(ends[1], &part, 1, 0) == PAGE && munmap(pages, PAGE) == 0);
    return (ssize_t)bytes;
}

static void stream_to_pipe(void)
{
    make_pipe();
    stream = fdopen(ends[1], "w");
    require(stream && setvbuf(stream, NULL, _IONBF, 0) == 0);
}

static void datagrams(void)
{
    make_sockets(SOCK_DGRAM);
}

static void memory_file(void)
{
    ends[1] = memfd_create("trap", 0);
}

static void counter(void)
{
    ends[1] = eventfd(0, 0);
}

static void posix_queue(void)
{
    queue = make_queue();
}

/* at: where in the message the address is. */
static const struct {
    const char *way;
    void (*prepare)(void);
    sender *send;
    size_t at, bytes;
} ways[] = {
    {"odd-size", make_pipe, by_write, 1, 10}, /* packed: a letter, an address, a letter */
    {"odd-offset", make_pipe, by_write, 19, 32},
    {"sendto", datagrams, by_sendto, 8, 16},
    {"sendmsg", datagrams, by_sendmsg, 8, 16},
    {"sendmmsg", datagrams, by_sendmmsg, 8, 16},
    {"writev", make_pipe, by_writev, 8, 16},
    {"split-writev", make_pipe, by_split_writev, 0, 8},
    {"name-of-socket", NULL, by_name_of_socket, 8, 16},
    {"pwrite", memory_file, by_pwrite, 8, 16},
    {"pwrite64", memory_file, by_pwrite64, 8, 16},
    {"pwrite64-other-name", memory_file, by_pwrite64_other_name, 8, 16},
    {"pwritev", memory_file, by_pwritev, 8, 16},
    {"pwritev64", memory_file, by_pwritev64, 8, 16},
    {"pwritev2", memory_file, by_pwritev2, 8, 16},
    {"pwritev64v2", memory_file, by_pwritev64v2, 8, 16},
    {"unbuffered", stream_to_pipe, by_fwrite, 8, 16},
    {"unbuffered-other-name", stream_to_pipe, by_fwrite_other_name, 8, 16},
    {"unbuffered-unlocked", stream_to_pipe, by_fwrite_unlocked, 8, 16},
    {"eventfd", counter, by_eventfd_write, 0, 8},
    {"mq-send", posix_queue, by_mq_send, 8, 16},
    {"mq-timedsend", posix_queue, by_mq_timedsend, 8, 16},
    {"msgsnd", NULL, by_msgsnd, 8, 16},
    {"vmsplice", make_pipe, by_vmsplice, 8, 16},
};

static void message(const char *way)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(way, ways[i].way) != 0)
            continue;
        if (ways[i].prepare)
            ways[i].prepare();
        keeps_message(ways[i].send, ways[i].at, ways[i].bytes);
        if (ways[i].send == by_msgsnd)
            require(msgctl(system_v_queue, IPC_RMID, NULL) == 0);
        return;
    }
    require(!"a known way");
}

/* Values of signals that libc queues when a request is done. The request itself may be
 * used again then. */

static void block_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    require(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

/* The signal has come, and the value is in the kernel. */
static void wait_for_signal(void)
{
    sigset_t pending;
    do {
        usleep(100);
        sigpending(&pending);
    } while (!sigismember(&pending, SIGUSR2));
}

static void *do_nothing(void *unused)
{
    return unused;
}

/* libc's helpers end when they have had nothing to do for a second. Their stacks, which libc keeps
 * for later threads up to a limit, are given back when a larger one comes. */
static void drop_stacks_of_helpers(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    struct stat tasks;
    do {
        usleep(1000);
        require(stat("/proc/self/task", &tasks) == 0);
    } while (tasks.st_nlink > 3);
    require(pthread_attr_init(&attributes) == 0 &&
            pthread_attr_setstacksize(&attributes, 100 << 20) == 0 &&
            pthread_create(&thread, &attributes, do_nothing, NULL) == 0 &&
            pthread_join(thread, NULL) == 0);
}

static void take_signal(struct disguised block)
{
    drop_stacks_of_helpers();
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    collect();
    require(is_kept(block) && sigwaitinfo(&set, &info) == SIGUSR2);
    require(info.si_value.sival_ptr == reveal(block));
}

static struct aiocb request;
static char read_bytes[8];

__attribute__((noinline)) static struct disguised ask_for_signal(const char *way)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    event.sigev_value.sival_ptr = signed_block();
    struct disguised block = disguise(event.sigev_value.sival_ptr);
    struct aiocb *requests[] = {&request};
    struct gaicb name = {.ar_name = "127.0.0.1"}, *names[] = {&name};
    request = (struct aiocb){.aio_fildes = ends[0],
                             .aio_buf = read_bytes,
                             .aio_nbytes = 4,
                             .aio_lio_opcode = LIO_READ,
                             .aio_sigevent.sigev_notify = SIGEV_NONE};
    if (!strcmp(way, "lio-listio") || !strcmp(way, "lio-listio64")) {
        require((way[10] ? lio_listio64(LIO_NOWAIT, (struct aiocb64 **)requests, 1, &event)
                         : lio_listio(LIO_NOWAIT, requests, 1, &event)) == 0);
    } else if (!strcmp(way, "lio-listio-each")) {
        request.aio_sigevent = event;
        require(lio_listio(LIO_NOWAIT, requests, 1, NULL) == 0);
    } else if (!strcmp(way, "getaddrinfo-a")) {
        require(getaddrinfo_a(GAI_NOWAIT, names, 1, &event) == 0);
        wait_for_signal();
    } else {
        struct aiocb64 *request64 = (struct aiocb64 *)&request;
        request.aio_sigevent = event;
        require((!strcmp(way, "aio-read")     ? aio_read(&request)
                 : !strcmp(way, "aio-read64") ? aio_read64(request64)
                 : !strcmp(way, "aio-write")  ? (request.aio_fildes = ends[1], aio_write(&request))
                 : !strcmp(way, "aio-write64")
                     ? (request.aio_fildes = ends[1], aio_write64(request64))
                 : !strcmp(way, "aio-fsync64") ? aio_fsync64(O_SYNC, request64)
                                               : aio_fsync(O_SYNC, &request)) == 0);
    }
    memset(&event, 0, sizeof event);
    return block;
}

static void asynchronous(const char *way)
{
    block_signal();
    if (strstr(way, "fsync"))
        ends[0] = memfd_create("trap", 0);
    else
        make_pipe();
    struct disguised block = ask_for_signal(way);
    if (!strstr(way, "write") && !strstr(way, "fsync") && strcmp(way, "getaddrinfo-a") != 0)
        require(write(ends[1], "four", 4) == 4);
    wait_for_signal();
    memset(&request, 0, sizeof request);
    take_signal(block);
}

/* Attributes for the thread that a message queue is to start: libc leaves its copy of them with the
 * kernel. */

static _Atomic int notified;
static void *given_stack;
enum { GIVEN_STACK = 256 << 10 };

static void note(union sigval value)
{
    char here;
    notified = value.sival_int == 17 && &here > (char *)given_stack &&
                       &here < (char *)given_stack + GIVEN_STACK
                   ? 1
                   : -1;
}

__attribute__((noinline)) static void ask_for_thread(void)
{
    struct sigevent event = {
        .sigev_notify = SIGEV_THREAD, .sigev_notify_function = note, .sigev_value.sival_int = 17};
    pthread_attr_t attributes;
    require(pthread_attr_init(&attributes) == 0 &&
            pthread_attr_setstack(&attributes, given_stack, GIVEN_STACK) == 0);
    event.sigev_notify_attributes = &attributes;
    require(mq_notify(queue, &event) == 0);
    memset(&event, 0, sizeof event);
    pthread_attr_destroy(&attributes);
}

static bool has_thread_that_blocks_all(void)
{
    enum { SIGNAL_OF_STOPS = 33 };
    bool found = false;
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *thread; (thread = readdir(threads));) {
        char path[PATH_MAX], line[256];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", thread->d_name);
        FILE *status = fopen(path, "r");
        while (status && fgets(line, sizeof line, status))
            found |= !strncmp(line, "SigBlk:", 7) &&
                     strtoull(line + 7, NULL, 16) >> (SIGNAL_OF_STOPS - 1) & 1;
        if (status)
            fclose(status);
    }
    closedir(threads);
    return found;
}

static void notify_with_attributes(void)
{
    queue = make_queue();
    given_stack =
        mmap(NULL, GIVEN_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ask_for_thread();
    while (has_thread_that_blocks_all()) /* libc's own does as it begins: no collection then */
        usleep(100);
    collect();
    for (size_t bytes = 16; bytes <= 256; bytes += 16)
        for (int i = 0; i < 2000; i++)
            memset(malloc(bytes), 0xEE, bytes);
    require(mq_send(queue, "message", 7, 0) == 0);
    while (notified == 0)
        usleep(100);
    require(notified == 1);
}

/* What a block that is pinned points to is kept with it. */
static struct disguised behind;

__attribute__((noinline)) static struct disguised give_list(int epoll)
{
    void **first = malloc(TRAP_BYTES), **second = malloc(48);
    struct disguised kept = disguise(first);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = first};
    memset(first, 0x5A, TRAP_BYTES);
    behind = lost_block();
    second[3] = reveal(behind);
    first[7] = second;
    require(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    memset(&event, 0, sizeof event);
    return kept;
}

static void behind_pinned(void)
{
    make_pipe();
    struct disguised first = give_list(epoll_create1(0));
    collect();
    require(is_kept(behind));
    free(reveal(first));
}

/* The base of the segment register that libc leaves to programs: here, and in a thread. */
static _Atomic int ready, stop;
static struct disguised in_gs;

__attribute__((noinline)) static void put_in_gs(void)
{
    void *block = signed_block();
    in_gs = disguise(block);
    require(syscall(SYS_arch_prctl, ARCH_SET_GS, block) == 0);
}

static void *thread_with_gs(void *unused)
{
    put_in_gs();
    clean_stack();
    __asm__ volatile("vzeroall\n\t"
                     "xor %%eax, %%eax\n\txor %%ecx, %%ecx\n\txor %%edx, %%edx\n\t"
                     "xor %%esi, %%esi\n\txor %%edi, %%edi\n\txor %%r8d, %%r8d\n\t"
                     "xor %%r9d, %%r9d\n\txor %%r10d, %%r10d\n\txor %%r11d, %%r11d\n\t"
                     "movl $1, %0\n\t"
                     "1: pause\n\tcmpl $0, %1\n\tje 1b"
                     : "=m"(ready)
                     : "m"(stop)
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
    return unused;
}

static void gs_base(const char *way)
{
    pthread_t thread;
    if (!strcmp(way, "gs-base"))
        put_in_gs();
    else
        require(pthread_create(&thread, NULL, thread_with_gs, NULL) == 0);
    while (strcmp(way, "gs-base") != 0 && !ready)
        usleep(100);
    collect();
    require(is_kept(in_gs));
    stop = 1;
    if (strcmp(way, "gs-base") != 0)
        require(pthread_join(thread, NULL) == 0);
}

/* A device driver that hands a structure of the program's back, here a terminal's timeouts: what
 * matters is that its words pass through ioctl. */
__attribute__((noinline)) static struct disguised give_to_driver(void)
{
    struct {
        uint64_t words[4];
    } argument = {{1, 2, (uintptr_t)signed_block(), 4}};
    struct disguised block = disguise((void *)(uintptr_t)argument.words[2]);
    require(ioctl(0, _IOWR('T', 250, argument), &argument) == -1);
    memset(&argument, 0, sizeof argument);
    return block;
}

static void driver(void)
{
    struct disguised block = give_to_driver();
    collect();
    require(is_kept(block));
}

/* The kernel looks at no byte of what goes to /dev/null, and tells of bad addresses elsewhere. */
static void no_memory(void)
{
    void *volatile at = (void *)8;
    volatile int negative = -1;
    void *nowhere = at;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC), epoll = epoll_create1(EPOLL_CLOEXEC);
    struct iovec part = {nowhere, 100};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    make_sockets(SOCK_DGRAM);
    require(write(null, nowhere, 100) == 100);
    require(writev(null, &part, 1) == 100);
    require(write(ends[1], nowhere, 100) == -1 && errno == EFAULT);
    require(writev(ends[1], nowhere, 3) == -1 && errno == EFAULT);
    require(writev(ends[1], &part, negative) == -1 && errno == EINVAL);
    require(sendmsg(ends[1], &header, 0) == -1 && errno == EFAULT);
    require(sendmsg(ends[1], nowhere, 0) == -1 && errno == EFAULT);
    require(sendmmsg(ends[1], nowhere, 2, 0) == -1 && errno == EFAULT);
    require(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], nowhere) == -1 && errno == EFAULT);
    require(ioctl(0, _IOWR('T', 250, char[64]), nowhere) == -1);
    collect();
}

/* Who receives a message may unmap its memory before the sender's call has returned. Here he does:
 * both share a processor, and the sender has the lower priority. */
enum { GIVEN_MESSAGES = 20 };

static void *unmap_what_comes(void *unused)
{
    void *pages[2];
    while (read(ends[0], pages, sizeof pages) == (ssize_t)sizeof pages)
        require(munmap(pages[0], PAGE) == 0);
    return unused;
}

static void unmapped_by_receiver(void)
{
    pthread_t thread;
    cpu_set_t before, one;
    struct sched_param parameter = {0};
    require(sched_getaffinity(0, sizeof before, &before) == 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    make_pipe();
    require(sched_setaffinity(0, sizeof one, &one) == 0);
    require(pthread_create(&thread, NULL, unmap_what_comes, NULL) == 0);
    require(sched_setscheduler(0, SCHED_IDLE, &parameter) == 0);
    for (int i = 0; i < GIVEN_MESSAGES; i++) {
        void **page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(page != MAP_FAILED);
        page[0] = page;
        require(write(ends[1], page, 2 * sizeof *page) == 2 * sizeof *page);
    }
    require(sched_setscheduler(0, SCHED_OTHER, &parameter) == 0);
    require(sched_setaffinity(0, sizeof before, &before) == 0);
    require(close(ends[1]) == 0 && pthread_join(thread, NULL) == 0);
    collect();
}

int main(int count, char **arguments)
{
    require(count == 2);
    const char *way = arguments[1];
    pass_first_blocks();
    if (!strncmp(way, "aio-", 4) || !strncmp(way, "lio-", 4) || !strcmp(way, "getaddrinfo-a"))
        asynchronous(way);
    else if (!strcmp(way, "notify-with-attributes"))
        notify_with_attributes();
    else if (!strcmp(way, "behind-pinned"))
        behind_pinned();
    else if (!strncmp(way, "gs-base", 7))
        gs_base(way);
    else if (!strcmp(way, "driver"))
        driver();
    else if (!strcmp(way, "no-memory"))
        no_memory();
    else if (!strcmp(way, "unmapped-by-receiver"))
        unmapped_by_receiver();
    else
        message(way);
    return 0;
}
