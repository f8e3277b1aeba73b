/* SPDX-License-Identifier: MIT
 *
 * loader_lock.c: calls that may be made while another thread holds the loader's lock.
 *
 * A thread is in dlopen, in a constructor, and stays there until the children are over. In the
 * child of _Fork nobody releases that lock; in that of vfork its holder may wait for the parent, as
 * a collection does. So a wrapper must not search for libc's function there. The argument is a
 * library whose constructor calls plugin_opened. Seen: a vfork child's exec searched for execv,
 * beside a thread in getpwnam that collected.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/contract/contract.h"

enum { HANG_SECONDS = 600 };

static pthread_barrier_t in_constructor, children_are_over;

void plugin_opened(void);
void plugin_opened(void)
{
    pthread_barrier_wait(&in_constructor);
    pthread_barrier_wait(&children_are_over);
}

static void *open_plugin(void *path)
{
    require(dlopen(path, RTLD_NOW) != NULL);
    return NULL;
}

/* What POSIX allows in a signal handler, of each file of wrappers. */
static void make_calls(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    struct timespec no_time = {0};
    struct epoll_event event;
    char byte = 0;
    require(sigaction(SIGUSR1, &action, NULL) == 0 && signal(SIGUSR2, SIG_IGN) != SIG_ERR);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(page != MAP_FAILED && mprotect(page, 4096, PROT_READ) == 0);
    require(madvise(page, 4096, MADV_NORMAL) == 0 && munmap(page, 4096) == 0);
    require(nanosleep(&no_time, NULL) == 0 && poll(NULL, 0, 0) == 0);
    require(clock_nanosleep(CLOCK_MONOTONIC, 0, &no_time, NULL) == 0);
    require(write(-1, &byte, 1) == -1 && pwrite(-1, &byte, 1, 0) == -1);
    require(send(-1, &byte, 1, 0) == -1 && recv(-1, &byte, 1, 0) == -1);
    require(accept(-1, NULL, NULL) == -1 && bind(-1, NULL, 0) == -1);
    require(setsockopt(-1, SOL_SOCKET, SO_RCVTIMEO, NULL, 0) == -1);
    require(epoll_wait(-1, &event, 1, 0) == -1);
}

static void require_success(pid_t child)
{
    int status;
    require(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int count, char **arguments)
{
    pthread_t opener;
    require(count == 2);
    alarm(HANG_SECONDS); /* a deadlock ends with SIGALRM */
    exercise();
    require(pthread_barrier_init(&in_constructor, NULL, 2) == 0);
    require(pthread_barrier_init(&children_are_over, NULL, 2) == 0);
    require(pthread_create(&opener, NULL, open_plugin, arguments[1]) == 0);
    pthread_barrier_wait(&in_constructor);

    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    require_success(child);
    child = _Fork();
    if (child == 0) {
        alarm(HANG_SECONDS);
        make_calls();
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    require_success(child);
    make_calls();

    pthread_barrier_wait(&children_are_over);
    require(pthread_join(opener, NULL) == 0);
    exercise();
    return 0;
}
