/* SPDX-License-Identifier: MIT
 *
 * wrapped_calls.c: system calls that the library wraps, where nobody may wait for a lock of ours.
 *
 * A signal handler may call write, and so may the child of a fork in a program with threads; both
 * may interrupt, or lose, a thread that is in the middle of the same call. The argument is
 * "handler" or "fork".
 * Seen: a lock round the first use of the library was taken by each wrapped call.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"

enum { FORKS = 150, WRITES = 500000 };
static int sink;
static volatile bool stop;

static void write_one(void)
{
    require(write(sink, "x", 1) == 1);
}

static void on_alarm(int number)
{
    (void)number;
    write_one();
}

static void in_handler(void)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    require(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    require(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < WRITES; i++)
        write_one();
    require(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

static void *keep_calling(void *page)
{
    while (!stop) {
        write_one();
        require(madvise(page, 4096, MADV_NORMAL) == 0);
    }
    return NULL;
}

static void in_child(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(page != MAP_FAILED);
    pthread_t thread;
    require(pthread_create(&thread, NULL, keep_calling, page) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(600); /* a deadlock ends with SIGALRM */
            write_one();
            require(madvise(page, 4096, MADV_NORMAL) == 0);
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        int status;
        require(waitpid(child, &status, 0) == child && status == 0);
    }
    stop = true;
    require(pthread_join(thread, NULL) == 0);
}

int main(int count, char **arguments)
{
    require(count == 2);
    sink = open("/dev/null", O_WRONLY);
    require(sink >= 0);
    if (strcmp(arguments[1], "handler") == 0)
        in_handler();
    else
        in_child();
    return 0;
}
