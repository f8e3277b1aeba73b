/* SPDX-License-Identifier: MIT
 *
 * judged_by_libc.c: arguments that libc or the kernel refuses, or never looks at, and calls that a
 * child by number may make.
 *
 * A wrapper that reads them itself crashes where libc returns an error. So does one that reads a
 * message's list of parts after the call, when another thread has freed it. And one that takes a
 * lock in a child of _Fork waits for ever: another thread of the parent may hold it.
 * Seen: found by reading (writev, sendmsg, fwrite, aio_fsync, lio_listio, getaddrinfo_a, prctl).
 */
#include <aio.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"

enum { HANG_SECONDS = 600, MANY_BYTES = 1 << 20, CHILDREN = 20 };

static void refused(void)
{
    struct aiocb request = {.aio_lio_opcode = LIO_NOP}, *requests[] = {&request};
    struct gaicb lookup = {.ar_name = "127.0.0.1"}, *lookups[] = {&lookup};
    void *bad = opaque((void *)8);
    require(aio_fsync(77, bad) == -1 && errno == EINVAL);
    require(lio_listio(77, bad, 3, NULL) == -1 && errno == EINVAL);
    require(lio_listio(LIO_WAIT, requests, 1, bad) == 0);
    require(getaddrinfo_a(GAI_WAIT, lookups, 1, bad) == 0);
    require(getaddrinfo_a(77, lookups, 1, bad) == EAI_SYSTEM && errno == EINVAL);
    require(fwrite("", 0, 1, opaque(NULL)) == 0);
}

static int ends[2];
static struct message {
    struct iovec part;
    struct msghdr header;
} * message;

/* Takes a byte, so that the other end is in its call, then frees the list. */
static void *free_list_and_take(void *unused)
{
    static char taken[65536];
    require(read(ends[0], taken, 1) == 1 && munmap(message, sizeof *message) == 0);
    for (long left = MANY_BYTES - 1, done; left > 0; left -= done) {
        done = read(ends[0], taken, sizeof taken);
        require(done > 0);
    }
    return unused;
}

static void freed_meanwhile(bool by_sendmsg)
{
    static char bytes[MANY_BYTES];
    pthread_t taker;
    require((by_sendmsg ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0);
    message =
        mmap(NULL, sizeof *message, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(message != MAP_FAILED);
    message->part = (struct iovec){bytes, sizeof bytes};
    message->header = (struct msghdr){.msg_iov = &message->part, .msg_iovlen = 1};
    require(pthread_create(&taker, NULL, free_list_and_take, NULL) == 0);
    ssize_t done =
        by_sendmsg ? sendmsg(ends[1], &message->header, 0) : writev(ends[1], &message->part, 1);
    require(done == MANY_BYTES);
    require(pthread_join(taker, NULL) == 0);
    close(ends[0]);
    close(ends[1]);
}

static _Atomic bool stop;

static void *allocate(void *unused)
{
    while (!stop) {
        exercise();
        malloc_trim(0);
    }
    return unused;
}

static void prctl_in_children(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, allocate, NULL) == 0);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = _Fork();
        if (child == 0) {
            alarm(HANG_SECONDS);
            prctl(i % 2 ? PR_SET_NO_NEW_PRIVS : PR_SET_DUMPABLE, i % 2, 0, 0, 0);
            _exit(0);
        }
        int status;
        require(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    stop = true;
    require(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    alarm(HANG_SECONDS);
    exercise();
    refused();
    freed_meanwhile(false);
    freed_meanwhile(true);
    prctl_in_children();
    exercise();
    return 0;
}
