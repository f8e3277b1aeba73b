/* SPDX-License-Identifier: MIT
 *
 * rests.c: a collection cuts a transfer short, and what comes then belongs to the rest of it.
 *
 * In each case a thread transfers, and has done a part when a collection interrupts it. It must be
 * found waiting again; then comes what the case is about. What it returns is what one call of the
 * kernel's would have: all bytes, or those before the end, with what came along, and with an error
 * left for the next call. The argument names the case.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tests/gc/traps/in_call.h"
#include "tests/gc/traps/tcp.h"
#include "tests/gc/traps/trap.h"

enum { FIRST = 10, ALL = 20, MANY_BYTES = 1 << 20, MESSAGES = 30 };

static int ends[2];
static _Atomic pid_t worker;
static _Atomic bool done;

/* Whether the thread waits in the kernel, but not for the end of a stop. */
static bool is_waiting(void)
{
    long call = call_of(worker);
    return call >= 0 && call != SYS_futex;
}

static void until_it_waits(void)
{
    while (!worker || !is_waiting())
        require(!done);
}

/* The thread has done a part, waits for the rest, is interrupted, and waits again. */
static void cut_short(void)
{
    until_it_waits();
    malloc_trim(0);
    until_it_waits();
}

static pthread_t start(void *(*work)(void *))
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0);
    return thread;
}

static void end(pthread_t thread)
{
    require(pthread_join(thread, NULL) == 0);
}

static void connect_pair(int type)
{
    require(socketpair(AF_UNIX, type, 0, ends) == 0);
}

static void send_bytes(long bytes)
{
    static const char zeros[MANY_BYTES];
    require(send(ends[1], zeros, (size_t)bytes, 0) == bytes);
}

/* Descriptors come with the rest. */

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void *receive_descriptor(void *unused)
{
    char bytes[ALL];
    union control control;
    struct iovec parts[] = {{bytes, FIRST / 2}, {bytes + FIRST / 2, ALL - FIRST / 2}};
    struct msghdr message = {.msg_iov = parts,
                             .msg_iovlen = 2,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    int received;
    worker = gettid();
    require(recvmsg(ends[0], &message, MSG_WAITALL) == ALL);
    require(message.msg_controllen > 0 && control.header.cmsg_type == SCM_RIGHTS);
    memcpy(&received, CMSG_DATA(&control.header), sizeof received);
    require(fcntl(received, F_GETFD) >= 0);
    done = true;
    return unused;
}

static void descriptors(void)
{
    char bytes[ALL - FIRST] = {0};
    union control control = {.header = {.cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS,
                                        .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    connect_pair(SOCK_STREAM);
    memcpy(CMSG_DATA(&control.header), &ends[1], sizeof(int));
    pthread_t thread = start(receive_descriptor);
    send_bytes(FIRST);
    cut_short();
    require(sendmsg(ends[1], &message, 0) == sizeof bytes);
    end(thread);
}

/* Instead of the rest comes an error. */

static void *receive_until_error(void *unused)
{
    char bytes[ALL];
    worker = gettid();
    require(recv(ends[0], bytes, sizeof bytes, MSG_WAITALL) == FIRST);
    require(recv(ends[0], bytes, sizeof bytes, 0) == -1 && errno == ECONNRESET);
    return unused;
}

static void *receive_message_until_error(void *unused)
{
    char bytes[ALL];
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    worker = gettid();
    require(recvmsg(ends[0], &message, MSG_WAITALL) == FIRST);
    require(recv(ends[0], bytes, sizeof bytes, 0) == -1 && errno == ECONNRESET);
    return unused;
}

static void reset(void *(*receive)(void *))
{
    struct linger at_once = {.l_onoff = 1};
    connect_by_tcp(&ends[1], &ends[0]);
    pthread_t thread = start(receive);
    send_bytes(FIRST);
    cut_short();
    require(setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
    close(ends[1]);
    end(thread);
}

/* Nobody receives the rest: the transfer returns what was sent, without a signal. The error is the
 * next call's. */

static _Atomic int broken;

static void on_broken(int number)
{
    (void)number;
    broken++;
}

static bool by_write;

static void *send_until_error(void *unused)
{
    static const char bytes[MANY_BYTES];
    worker = gettid();
    ssize_t sent =
        by_write ? write(ends[1], bytes, sizeof bytes) : send(ends[1], bytes, sizeof bytes, 0);
    require(sent > 0 && sent < MANY_BYTES);
    require(send(ends[1], bytes, 1, 0) == -1 && errno == ECONNRESET && broken == 0);
    return unused;
}

static void broken_send(void)
{
    int room = 16384;
    require(signal(SIGPIPE, on_broken) == SIG_DFL);
    connect_by_tcp(&ends[1], &ends[0]);
    require(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0);
    require(setsockopt(ends[0], SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0);
    pthread_t thread = start(send_until_error);
    cut_short();
    close(ends[0]);
    end(thread);
}

/* The limit counts from the call, however often it is interrupted, with a byte before each. */

enum { LIMIT_MS = 400, TRICKLE = 20000 };

static int64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void *receive_in_time(void *unused)
{
    static char bytes[TRICKLE];
    struct timeval limit = {.tv_usec = LIMIT_MS * 1000};
    require(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    int64_t begun = now_ms();
    worker = gettid();
    ssize_t received = recv(ends[0], bytes, sizeof bytes, MSG_WAITALL);
    require(received > 0 && received < TRICKLE && now_ms() - begun >= LIMIT_MS - 10);
    done = true;
    return unused;
}

static void limit(void)
{
    connect_pair(SOCK_STREAM);
    pthread_t thread = start(receive_in_time);
    for (int i = 0; i < TRICKLE && !done; i++) {
        send_bytes(1);
        usleep(500);
        malloc_trim(0);
    }
    end(thread);
}

/* The call returns when the socket's mark is reached, not before. */

static void *receive_to_mark(void *unused)
{
    char bytes[MANY_BYTES / 64];
    int mark = ALL;
    require(setsockopt(ends[0], SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark) == 0);
    worker = gettid();
    require(recv(ends[0], bytes, sizeof bytes, 0) == ALL);
    done = true;
    return unused;
}

static void mark(void)
{
    connect_pair(SOCK_STREAM);
    pthread_t thread = start(receive_to_mark);
    send_bytes(FIRST);
    cut_short();
    send_bytes(ALL - FIRST);
    end(thread);
}

/* Whoever asks for the sender's address, or names the receiver's, on a stream. */

static void *receive_with_address(void *unused)
{
    char bytes[ALL];
    struct sockaddr_storage sender;
    socklen_t length = sizeof sender;
    worker = gettid();
    require(recvfrom(ends[0], bytes, ALL, MSG_WAITALL, (struct sockaddr *)&sender, &length) == ALL);
    done = true;
    return unused;
}

/* The rest comes in two parts. */
static void receive_rest(void *(*receive)(void *))
{
    pthread_t thread = start(receive);
    until_it_waits();
    send_bytes(FIRST);
    cut_short();
    send_bytes(1);
    usleep(20000);
    until_it_waits();
    send_bytes(ALL - FIRST - 1);
    end(thread);
}

static void *send_with_address(void *unused)
{
    static const char zeros[MANY_BYTES];
    struct sockaddr_in receiver;
    socklen_t length = sizeof receiver;
    require(getpeername(ends[1], (struct sockaddr *)&receiver, &length) == 0);
    worker = gettid();
    require(sendto(ends[1], zeros, MANY_BYTES, 0, (struct sockaddr *)&receiver, length) ==
            MANY_BYTES);
    done = true;
    return unused;
}

static void addressed_send(void)
{
    static char taken[MANY_BYTES];
    int little = 4096;
    connect_by_tcp(&ends[1], &ends[0]);
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
    pthread_t thread = start(send_with_address);
    cut_short();
    require(recv(ends[0], taken, MANY_BYTES, MSG_WAITALL) == MANY_BYTES);
    end(thread);
}

/* Other control data than descriptors is lost, and ends nothing. */
static void *receive_without_credentials(void *unused)
{
    char bytes[ALL];
    int on = 1;
    require(setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    worker = gettid();
    require(recv(ends[0], bytes, ALL, MSG_WAITALL) == ALL);
    done = true;
    return unused;
}

/* A call ends before an urgent byte. */

static void *receive_until_urgent(void *unused)
{
    char bytes[ALL];
    worker = gettid();
    require(recv(ends[0], bytes, ALL, MSG_WAITALL) == FIRST);
    done = true;
    return unused;
}

static void urgent(void)
{
    connect_by_tcp(&ends[1], &ends[0]);
    pthread_t thread = start(receive_until_urgent);
    send_bytes(FIRST);
    cut_short();
    require(send(ends[1], "!", 1, MSG_OOB) == 1);
    end(thread);
}

/* Many messages in a call. */

static struct mmsghdr messages[MESSAGES];
static struct iovec message_parts[MESSAGES];

static void make_messages(size_t bytes)
{
    for (int i = 0; i < MESSAGES; i++) {
        message_parts[i] = (struct iovec){calloc(1, bytes), bytes};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &message_parts[i], .msg_iovlen = 1};
    }
}

/* It ends with those that are there; Linux's own number for that is no error of the next call. */
static void *receive_messages(void *unused)
{
    char byte;
    worker = gettid();
    require(recvmmsg(ends[0], messages, 4, 0, NULL) == 2);
    for (int i = 0; i < 2; i++)
        require(messages[i].msg_len == (unsigned)i + 1);
    require(recv(ends[0], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    return unused;
}

static void received_messages(void)
{
    connect_pair(SOCK_DGRAM);
    make_messages(100);
    pthread_t thread = start(receive_messages);
    send_bytes(1);
    send_bytes(2);
    until_it_waits();
    malloc_trim(0);
    end(thread);
}

static size_t message_bytes;

static void *send_messages(void *unused)
{
    worker = gettid();
    require(sendmmsg(ends[1], messages, MESSAGES, 0) == MESSAGES);
    for (int i = 0; i < MESSAGES; i++)
        require(messages[i].msg_len == message_bytes);
    done = true;
    return unused;
}

static void sent_messages(int type, size_t bytes)
{
    static char taken[MANY_BYTES];
    connect_pair(type);
    message_bytes = bytes;
    make_messages(bytes);
    pthread_t thread = start(send_messages);
    cut_short();
    for (size_t left = MESSAGES * bytes; left > 0;) {
        ssize_t some = recv(ends[0], taken, sizeof taken, 0);
        require(some > 0);
        left -= (size_t)some;
    }
    end(thread);
}

int main(int count, char **arguments)
{
    require(count == 2);
    const char *name = arguments[1];
    by_write = !strcmp(name, "broken-write");
    if (!strcmp(name, "descriptors"))
        descriptors();
    else if (!strcmp(name, "reset"))
        reset(receive_until_error);
    else if (!strcmp(name, "reset-message"))
        reset(receive_message_until_error);
    else if (!strncmp(name, "broken-", 7))
        broken_send();
    else if (!strcmp(name, "limit"))
        limit();
    else if (!strcmp(name, "mark"))
        mark();
    else if (!strcmp(name, "addressed")) {
        connect_by_tcp(&ends[1], &ends[0]);
        receive_rest(receive_with_address);
    } else if (!strcmp(name, "addressed-send"))
        addressed_send();
    else if (!strcmp(name, "credentials")) {
        connect_pair(SOCK_STREAM);
        receive_rest(receive_without_credentials);
    } else if (!strcmp(name, "urgent"))
        urgent();
    else if (!strcmp(name, "received-messages"))
        received_messages();
    else if (!strcmp(name, "sent-messages"))
        sent_messages(SOCK_DGRAM, 20000);
    else if (!strcmp(name, "sent-long-messages"))
        sent_messages(SOCK_STREAM, 50000);
    else
        return 1;
    return 0;
}
