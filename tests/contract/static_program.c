/* SPDX-License-Identifier: MIT
 *
 * static_program.c: linked statically with the archive in place of libc's malloc.
 *
 * A call of mallinfo2 or malloc_trim pulls in glibc's malloc.o, which defines malloc and all
 * once more, unless the same member of our archive defines every public symbol of that file.
 * A function of libc's that the library wraps works here too, though there is no next one to be
 * found by dlsym, which allocates when it fails.
 */
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "tests/contract/contract.h"

static void *only_exercise(void *unused)
{
    exercise();
    return unused;
}

static size_t bytes_in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void use_wrapped_calls(void)
{
    int ends[2];
    char text[2] = "";
    struct iovec parts = {"a", 1};
    require(pipe(ends) == 0);
    struct pollfd readable = {.fd = ends[0], .events = POLLIN};
    size_t before = bytes_in_use();
    require(poll(&readable, 1, 0) == 0);
    require(writev(ends[1], &parts, 1) == 1 && poll(&readable, 1, -1) == 1);
    require(read(ends[0], text, 1) == 1 && text[0] == 'a');
    require(usleep(1) == 0);
    require(write(ends[1], "bc", 2) == 2 && read(ends[0], text, 2) == 2);
    require(bytes_in_use() == before);
    close(ends[0]);
    close(ends[1]);
}

static _Atomic int noted;

static void note_value(union sigval value)
{
    noted = value.sival_int;
}

static void use_timers_and_signals(void)
{
    static const struct itimerspec soon = {.it_value = {.tv_nsec = 1}};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = note_value};
    event.sigev_value.sival_int = 4711;
    timer_t timer;
    require(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    require(timer_settime(timer, 0, &soon, NULL) == 0);
    while (!noted)
        usleep(1000);
    require(noted == 4711 && timer_delete(timer) == 0);
    require(pthread_sigqueue(pthread_self(), 0, event.sigev_value) == 0);
    require(mq_notify((mqd_t)-1, NULL) == -1 && errno == EBADF);
}

static int never[2]; /* sockets on which nothing comes */

static void *wait_in_poll(void *unused)
{
    struct pollfd readable = {.fd = never[0], .events = POLLIN};
    poll(&readable, 1, -1);
    return unused;
}

static void *wait_in_recv(void *unused)
{
    char text;
    recv(never[0], &text, 1, 0);
    return unused;
}

static void *wait_in_sleep(void *unused)
{
    nanosleep(&(struct timespec){.tv_sec = 100000}, NULL);
    return unused;
}

static void require_cancellation(void *(*wait)(void *))
{
    pthread_t thread;
    void *result;
    require(pthread_create(&thread, NULL, wait, NULL) == 0);
    require(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
    require(result == PTHREAD_CANCELED);
}

int main(void)
{
    exercise();
    use_wrapped_calls();
    use_timers_and_signals();
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, never) == 0);
    require_cancellation(wait_in_poll);
    require_cancellation(wait_in_recv);
    require_cancellation(wait_in_sleep);
    void *block = malloc(5000000);
    require(block != NULL);
    struct mallinfo2 info = mallinfo2();
    require(info.uordblks + info.hblkhd >= 5000000);
    free(block);
    int trimmed = malloc_trim(0);
    require(trimmed == 0 || trimmed == 1);
    require(mallopt(M_ARENA_MAX, 2) >= 0);
    void *aligned = aligned_alloc(4096, 4096);
    require(aligned && (uintptr_t)aligned % 4096 == 0);
    free(aligned);
    pthread_t thread;
    require(pthread_create(&thread, NULL, only_exercise, NULL) == 0);
    require(pthread_join(thread, NULL) == 0);
    require(puts("a static program") >= 0);
    return 0;
}
