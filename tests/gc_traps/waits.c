/* SPDX-License-Identifier: MIT
 *
 * waits.c: a collection every millisecond while another thread waits in the kernel.
 *
 * A wait without a limit, or with a limit that is a point in time, must not end in EINTR for it; a
 * sleep must not be cut short or drawn out. The argument names the wait.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include "tests/gc_traps/trap.h"

enum { COLLECTIONS = 150 };

static int ends[2];
static sem_t semaphore;
static const char *wait_name;
static _Atomic int done;

static double seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
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
    } else {
        struct epoll_event event = {.events = EPOLLIN};
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        require(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
        require(epoll_wait(epoll, &event, 1, -1) == 1);
    }
}

static void sleep_for_a_while(void)
{
    double begun = seconds(CLOCK_MONOTONIC);
    struct timespec time = {.tv_nsec = 400000000};
    if (!strcmp(wait_name, "nanosleep")) {
        require(nanosleep(&time, &time) == 0);
    } else if (!strcmp(wait_name, "select-limit")) {
        struct timeval limit = {.tv_usec = 400000};
        require(select(0, NULL, NULL, NULL, &limit) == 0);
    } else if (!strcmp(wait_name, "clock-nanosleep")) {
        clock_gettime(CLOCK_MONOTONIC, &time);
        time.tv_sec += 1;
        require(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == 0);
        begun += 0.6;
    } else {
        clock_gettime(CLOCK_REALTIME, &time);
        time.tv_sec += 1;
        require(sem_timedwait(&semaphore, &time) == -1 && errno == ETIMEDOUT);
        begun += 0.6;
    }
    require(seconds(CLOCK_MONOTONIC) - begun > 0.39);
}

static bool is_sleep(void)
{
    static const char *const sleeps[] = {"nanosleep", "select-limit", "clock-nanosleep",
                                         "sem-timedwait"};
    for (size_t i = 0; i < sizeof sleeps / sizeof *sleeps; i++)
        if (!strcmp(wait_name, sleeps[i]))
            return true;
    return false;
}

static void *wait_in_kernel(void *unused)
{
    if (!strcmp(wait_name, "sem-wait"))
        require(sem_wait(&semaphore) == 0);
    else if (is_sleep())
        sleep_for_a_while();
    else
        wait_for_pipe();
    done = 1;
    return unused;
}

int main(int count, char **arguments)
{
    require(count == 2);
    wait_name = arguments[1];
    pthread_t thread;
    require(pipe(ends) == 0 && sem_init(&semaphore, 0, 0) == 0);
    require(pthread_create(&thread, NULL, wait_in_kernel, NULL) == 0);
    bool sleeps = is_sleep();
    for (int i = 0; i < COLLECTIONS || (sleeps && !done); i++) {
        malloc_trim(0);
        usleep(1000);
        require(sleeps || !done);
    }
    require(write(ends[1], "x", 1) == 1 && (sleeps || sem_post(&semaphore) == 0));
    require(pthread_join(thread, NULL) == 0);
    return 0;
}
