/* SPDX-License-Identifier: MIT */
/* allocating.c: known allocations for the tests of `allotrope events`.
 *
 *   allocating plain        100 blocks of 1..100 bytes; the even ones are freed, one is resized
 *   allocating resized      a block that grows and is freed, one that grows, shrinks and is not
 *   allocating nested       allocates four calls down
 *   allocating threads      blocks that another thread frees, again and again, from 8 threads
 *   allocating fork         a child frees what its parent allocated, and more; then _exit
 *   allocating killed       allocates 1000 blocks and is killed
 *   allocating threadlets   3000 short threads, one after another
 *   allocating crowd        2100 threads at once, more than there are buffers; the last of them
 *                           allocates again when the others have ended */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic(void *) mailbox[64];

static __attribute__((noinline, noclone)) void *innermost(size_t size)
{
    char *block = malloc(size);
    *block = 1; /* so that this is no tail call */
    return block;
}

static __attribute__((noinline, noclone)) void *outermost(unsigned depth)
{
    char *block = depth > 0 ? outermost(depth - 1) : innermost(43210);
    *block = (char)depth;
    return block;
}

static void *trade(void *argument)
{
    unsigned seed = (unsigned)(size_t)argument;
    for (int i = 0; i < 50000; i++) {
        void *given = malloc(16 + (size_t)(rand_r(&seed) % 64));
        free(atomic_exchange(&mailbox[rand_r(&seed) % 64], given));
    }
    return NULL;
}

static void *allocate_once(void *unused)
{
    free(malloc(777));
    return unused;
}

static void plain(void)
{
    void *block[101];
    for (size_t i = 1; i <= 100; i++)
        block[i] = i % 3 ? malloc(i) : calloc(1, i);
    for (size_t i = 2; i <= 100; i += 2)
        free(block[i]);
    block[1] = realloc(block[1], 5000);
    block[3] = realloc(block[3], (size_t)-1 / 4); /* fails: the block lives on */
    free(aligned_alloc(256, 70000));
}

static void resized(void)
{
    free(realloc(malloc(1000), 50000));
    mailbox[0] = realloc(realloc(malloc(1000), 1 << 20), 10);
}

static void threads(void)
{
    pthread_t thread[8];
    for (size_t i = 0; i < 8; i++)
        pthread_create(&thread[i], NULL, trade, (void *)(i + 1));
    for (size_t i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    for (size_t i = 0; i < 64; i++)
        free(atomic_exchange(&mailbox[i], NULL));
}

static void threadlets(void)
{
    pthread_t thread;
    for (int i = 0; i < 3000; i++) {
        pthread_create(&thread, NULL, allocate_once, NULL);
        pthread_join(thread, NULL);
    }
}

enum { CROWD = 2100 };
static pthread_barrier_t gathered, dispersed;

static void *join_crowd(void *number)
{
    void *block = malloc(777);
    pthread_barrier_wait(&gathered);
    free(block);
    if ((size_t)number == CROWD - 1) {
        pthread_barrier_wait(&dispersed);
        free(malloc(4321));
    }
    return block;
}

static void crowd(void)
{
    static pthread_t thread[CROWD];
    pthread_attr_t attributes;
    pthread_barrier_init(&gathered, NULL, CROWD);
    pthread_barrier_init(&dispersed, NULL, 2);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 16);
    for (size_t i = 0; i < CROWD; i++)
        if (pthread_create(&thread[i], &attributes, join_crowd, (void *)i) != 0)
            abort();
    for (size_t i = 0; i < CROWD - 1; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_wait(&dispersed);
    pthread_join(thread[CROWD - 1], NULL);
}

static void forked(void)
{
    void *block = malloc(1234);
    if (fork() == 0) {
        free(block);
        free(malloc(4321));
        _exit(0);
    }
    wait(NULL);
    free(block);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "nested") == 0)
        free(outermost(3));
    else if (strcmp(what, "plain") == 0)
        plain();
    else if (strcmp(what, "resized") == 0)
        resized();
    else if (strcmp(what, "threads") == 0)
        threads();
    else if (strcmp(what, "threadlets") == 0)
        threadlets();
    else if (strcmp(what, "crowd") == 0)
        crowd();
    else if (strcmp(what, "fork") == 0)
        forked();
    for (int i = 0; i < 1000 && strcmp(what, "killed") == 0; i++)
        if (!malloc(100 + (size_t)i))
            return 1;
    if (strcmp(what, "killed") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(what, "plain") == 0)
        _exit(3);
    return 0;
}
