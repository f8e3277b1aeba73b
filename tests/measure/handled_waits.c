/* SPDX-License-Identifier: MIT
 *
 * handled_waits.c: how often a wait goes on although a handler of the program's has run in it. One
 * thread waits, one allocates without a break, and the first sends a signal to each wait some
 * milliseconds after it has begun. The handler has no SA_RESTART, so each must end with EINTR. With
 * `restart` it has, and no wait may end.
 *
 *     cc -O2 -pthread -o handled_waits tests/measure/handled_waits.c
 *     allotrope run -a gc:every=50 -- ./handled_waits SECONDS poll
 *     allotrope run -a gc:every=50 -- ./handled_waits SECONDS read restart
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_MS = 20000, BEFORE_SIGNAL_US = 3000, AGAIN_MS = 1000 };

static int epolls, pipe_ends[2], sockets[2], limited[2], listening, semaphores;
static sem_t semaphore;
static char byte;

static int wait_poll(void)
{
    return poll(NULL, 0, LIMIT_MS);
}

static int wait_epoll(void)
{
    struct epoll_event event;
    return epoll_wait(epolls, &event, 1, LIMIT_MS);
}

static int wait_recv_limited(void)
{
    return (int)recv(limited[0], &byte, 1, 0);
}

static int wait_semtimedop(void)
{
    struct sembuf take = {.sem_op = -1};
    struct timespec limit = {.tv_sec = LIMIT_MS / 1000};
    return semtimedop(semaphores, &take, 1, &limit);
}

static int wait_read(void)
{
    return (int)read(pipe_ends[0], &byte, 1);
}

static int wait_recv(void)
{
    return (int)recv(sockets[0], &byte, 1, 0);
}

static int wait_accept(void)
{
    return accept(listening, NULL, NULL);
}

static int wait_sem(void)
{
    return sem_wait(&semaphore);
}

static const struct {
    const char *name;
    int (*wait)(void);
} kinds[] = {
    {"poll", wait_poll},     {"epoll_wait", wait_epoll},
    {"read", wait_read},     {"recv-with-limit", wait_recv_limited},
    {"recv", wait_recv},     {"semtimedop", wait_semtimedop},
    {"accept", wait_accept}, {"sem_wait", wait_sem},
};

static int (*chosen)(void);
static _Atomic bool has_begun;
static _Atomic pid_t thread;
static _Atomic long waits, went_on;

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static void handle(int number)
{
    (void)number;
}

static void *allocate(void *unused)
{
    for (;;) {
        void *volatile block = malloc(100 + (size_t)random() % 5000);
        free(block);
    }
    return unused;
}

static void *wait_often(void *unused)
{
    thread = gettid();
    for (;;) {
        has_begun = true;
        if (chosen() >= 0 || errno != EINTR)
            went_on++;
        waits++;
        while (has_begun)
            ;
    }
    return unused;
}

/* A signal that came before the wait would not end it. */
static bool is_in_call(void)
{
    char path[64], state = 'r'; /* running */
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    int file = open(path, O_RDONLY);
    bool is_read = file >= 0 && read(file, &state, 1) == 1;
    close(file);
    return is_read && state != 'r';
}

/* Sends a signal into the wait that begins, and more where the first did not end it. */
static void end_a_wait(pthread_t waiter)
{
    while (!has_begun)
        usleep(100);
    long before = waits;
    do
        usleep(BEFORE_SIGNAL_US + (unsigned)random() % 300);
    while (!is_in_call());
    double sent = now_ms();
    pthread_kill(waiter, SIGUSR1);
    while (waits == before) {
        if (now_ms() - sent >= AGAIN_MS) {
            went_on++;
            sent = now_ms();
            pthread_kill(waiter, SIGUSR1);
        }
        usleep(10);
    }
    has_begun = false;
}

/* Sends signals into a wait that goes on. */
static long interrupt_a_wait(pthread_t waiter, double end)
{
    long sent = 0;
    for (; now_ms() < end; sent++) {
        has_begun = false; /* after a wait that has ended */
        usleep(BEFORE_SIGNAL_US / 10 + (unsigned)random() % 300);
        pthread_kill(waiter, SIGUSR1);
    }
    return sent;
}

static void open_all(void)
{
    struct timeval limit = {.tv_sec = LIMIT_MS / 1000};
    epolls = epoll_create1(0);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    listening = socket(AF_INET, SOCK_STREAM, 0);
    sem_init(&semaphore, 0, 0);
    if (pipe(pipe_ends) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, limited) != 0 || listen(listening, 1) != 0 ||
        setsockopt(limited[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0)
        exit(1);
}

int main(int count, char **arguments)
{
    bool restarts = count == 4 && strcmp(arguments[3], "restart") == 0;
    for (size_t i = 0; count - restarts == 3 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(arguments[2], kinds[i].name) == 0)
            chosen = kinds[i].wait;
    if (!chosen) {
        fputs("usage: handled_waits SECONDS KIND [restart]\n", stderr);
        return 2;
    }
    struct sigaction action = {.sa_handler = handle, .sa_flags = restarts ? SA_RESTART : 0};
    pthread_t allocator, waiter;
    open_all();
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&allocator, NULL, allocate, NULL);
    pthread_create(&waiter, NULL, wait_often, NULL);
    double end = now_ms() + atof(arguments[1]) * 1e3;
    if (restarts) {
        long sent = interrupt_a_wait(waiter, end);
        printf("%s: %ld signals, %ld ended the wait\n", arguments[2], sent, (long)waits);
    } else {
        while (now_ms() < end)
            end_a_wait(waiter);
        printf("%s: %ld waits, %ld went on\n", arguments[2], (long)waits, (long)went_on);
    }
    semctl(semaphores, 0, IPC_RMID);
    fflush(stdout);
    _exit(0);
}
