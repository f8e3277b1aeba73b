/* SPDX-License-Identifier: MIT
 *
 * held_lock.c: calls that a child of _Fork may make though another thread of its parent is in the
 * middle of malloc, with the heap's locks.
 *
 * In the child nobody releases these locks. So no wrapper may take one: to pin a pointer that the
 * kernel is handed, before a sandbox, before an exec. The child has freed large blocks before,
 * which a checked heap keeps for a while.
 * Seen: found by reading (gc:classic in write, blocks:checked in prctl).
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"
#include "tests/unit/held_call.h"

enum { HANG_SECONDS = 600, BLOCKS = 1 << 20, BLOCK_BYTES = 1000 };

static _Atomic int listener;

/* Until the heap grows. */
static void *allocate(void *unused)
{
    listener = hold_calls(SYS_mmap);
    for (int i = 0; i < BLOCKS; i++)
        require(malloc(BLOCK_BYTES) != NULL);
    return unused;
}

static void hand_to_kernel(void *block)
{
    int ends[2], sockets[2], events = epoll_create1(0);
    struct epoll_event event = {.data.ptr = block};
    struct iovec part = {&block, sizeof block};
    require(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    require(write(ends[1], &block, sizeof block) == sizeof block);
    require(writev(ends[1], &part, 1) == sizeof block);
    require(send(sockets[0], &block, sizeof block, 0) == sizeof block);
    require(epoll_ctl(events, EPOLL_CTL_ADD, ends[0], &event) == 0);
    require(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    require(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_ptr = block}) == 0);
}

static _Noreturn void be_child(void *block)
{
    char *const arguments[] = {"true", NULL};
    alarm(HANG_SECONDS); /* a wait for ever ends with SIGALRM */
    hand_to_kernel(block);
    require(execv("/nowhere", arguments) == -1);
    require(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    execv("/bin/true", arguments);
    _exit(98);
}

int main(void)
{
    pthread_t thread;
    int status;
    exercise();
    void *block = malloc(BLOCK_BYTES);
    require(pthread_create(&thread, NULL, allocate, NULL) == 0);
    while (!listener)
        sched_yield();
    if (listener < 0)
        return 77;
    require(wait_for_held_call(listener) != 0);
    pid_t child = _Fork();
    if (child == 0)
        be_child(block);
    require(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    _exit(0);
}
