/* SPDX-License-Identifier: MIT
 *
 * threads_exhaust.c: threads that use up all memory, by every function, and end.
 *
 * Each failure is NULL with ENOMEM, nothing hangs, and what threads that have ended gave back serves
 * the next. glibc bugs 19048 (arenas of ended threads) and 19469; its tests of failure and of exit.
 */
#include <pthread.h>
#include <sys/resource.h>

#include "tests/contract/contract.h"

enum { LIMIT = 120 << 20, THREADS = 4, ROUNDS = 12, MOST = 200000 };

static pthread_barrier_t started;

struct held {
    struct held *next;
};

static void *allocate(int kind, size_t size)
{
    void *block = NULL;
    int error;
    switch (kind) {
    case 0:
        return malloc(size);
    case 1:
        return calloc(size, 1);
    case 2:
        return realloc(NULL, size);
    case 3:
        return aligned_alloc(64, size);
    case 4:
        return memalign(256, size);
    default:
        error = posix_memalign(&block, 64, size);
        require(error == 0 || error == ENOMEM);
        errno = error;
        return block;
    }
}

static void *use_all(void *seed)
{
    uint64_t random = (uint64_t)(uintptr_t)seed;
    struct held *list = NULL;
    size_t size = (size_t[]){100, 3000, 40000, 400000}[random_next(&random) % 4];
    pthread_barrier_wait(&started);
    errno = 0;
    for (int count = 0; count < MOST; count++) {
        struct held *block = allocate((int)(random_next(&random) % 6), size);
        if (!block) {
            require(errno == ENOMEM);
            break;
        }
        block->next = list;
        list = block;
    }
    while (list) {
        struct held *next = list->next;
        free(list);
        list = next;
    }
    return NULL;
}

int main(void)
{
    struct rlimit limit = {LIMIT, LIMIT};
    require(setrlimit(RLIMIT_DATA, &limit) == 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    pthread_barrier_init(&started, NULL, THREADS);
    for (uintptr_t round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            require(pthread_create(&threads[i], &attributes, use_all,
                                   (void *)(round * THREADS + i + 1)) == 0);
        for (int i = 0; i < THREADS; i++)
            require(pthread_join(threads[i], NULL) == 0);
    }
    void *blocks[100];
    for (int i = 0; i < 100; i++)
        require((blocks[i] = malloc(3000)) != NULL);
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    return 0;
}
