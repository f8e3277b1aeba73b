/* SPDX-License-Identifier: MIT
 *
 * fork_in_threads.c: fork while other threads are inside the allocator.
 *
 * The child has only the forking thread, but a copy of every lock: one that a sibling held is
 * never released there. All locks must be taken before fork and made anew in the child, which
 * then uses the whole heap, blocks of its vanished siblings included, and starts threads.
 * Seen: gperftools 499, jemalloc 315, 1805.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"

enum { THREADS = 4, FORKS = 30, SHARED = 400 };
static void *shared[SHARED]; /* allocated by the threads, freed by each child */
static _Atomic bool stop;
static _Atomic int ready; /* threads whose share of `shared` is complete */

static void *hammer(void *argument)
{
    size_t number = (size_t)argument;
    for (size_t i = number; i < SHARED; i += THREADS) {
        shared[i] = malloc(100 + i * 20);
        require(shared[i] != NULL);
        fill(shared[i], 100);
    }
    ready++;
    uint64_t random = number;
    void *blocks[64] = {NULL};
    while (!stop) {
        void **slot = &blocks[random_next(&random) % 64];
        free(*slot);
        *slot = malloc(random_next(&random) % 8 == 0 ? 300000 : random_next(&random) % 3000);
        require(*slot != NULL);
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
    return NULL;
}

static void *only_exercise(void *unused)
{
    exercise();
    return unused;
}

static void in_child(void)
{
    alarm(600); /* a deadlock ends with SIGALRM */
    for (int i = 0; i < SHARED; i++) {
        require(is_filled(shared[i], 100));
        free(shared[i]);
    }
    exercise();
    pthread_t thread;
    require(pthread_create(&thread, NULL, only_exercise, NULL) == 0);
    require(pthread_join(thread, NULL) == 0);
    malloc_trim(0);
    (void)mallinfo2();
    _exit(0);
}

int main(void)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        require(pthread_create(&threads[i], NULL, hammer, (void *)i) == 0);
    while (ready < THREADS)
        usleep(1000);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        require(child >= 0);
        if (child == 0)
            in_child();
        int status;
        require(waitpid(child, &status, 0) == child && status == 0);
        exercise();
    }
    stop = true;
    for (int i = 0; i < THREADS; i++)
        require(pthread_join(threads[i], NULL) == 0);
    return 0;
}
