/* SPDX-License-Identifier: MIT */
/* waiting.c: for the recorder's tests: works in three threads, forks a child that works as well,
 * says that it is ready, and works on until it is stopped. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void work(uint64_t rounds)
{
    volatile uint64_t sum = 0;
    for (uint64_t i = 0; i < rounds; i++)
        sum += i;
}

static void *run(void *argument)
{
    work((uintptr_t)argument);
    return NULL;
}

int main(int count, char **words)
{
    (void)words;
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run, (void *)((i + 1) * 100000));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    if (fork() == 0) {
        work(5000000);
        _exit(0);
    }
    wait(NULL);
    puts("ready");
    fflush(stdout);
    while (count > 1) // NOLINT(bugprone-infinite-loop): until it is killed
        work(1000);
    return 3;
}
