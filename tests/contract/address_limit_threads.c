/* SPDX-License-Identifier: MIT
 *
 * address_limit_threads.c: where the kernel gives no more memory, one thread is served from what
 * another has freed: by malloc, by calloc and by memalign. A quarter of all there is: that much no
 * allocator has in hand. (Twice as much costs knuth:classic's search eight times as long.)
 */
#include <pthread.h>
#include <sys/resource.h>

#include "tests/contract/contract.h"

enum { BLOCKS = 100000, SIZE = 3000, MOST_BYTES = 32 << 20 };

static void *blocks[BLOCKS];
static pthread_barrier_t freed, done;

static void *allocate(const char *kind)
{
    return strcmp(kind, "malloc") == 0   ? malloc(SIZE)
           : strcmp(kind, "calloc") == 0 ? calloc(SIZE, 1)
                                         : memalign(64, SIZE);
}

/* The first thread has an arena before this one takes all that there is. */
static void *use_all(void *kind)
{
    size_t count = 0;
    while (count < BLOCKS && (blocks[count] = allocate(kind)))
        count++;
    require(count > 1000 && count < BLOCKS);
    while (count > 0)
        free(blocks[--count]);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&done); /* its thread lives, and what is its own is not yet anybody's */
    return NULL;
}

int main(int count, char **arguments)
{
    require(count == 2);
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    pthread_barrier_init(&freed, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    void *first = allocate(arguments[1]);
    require(first != NULL);
    require(pthread_create(&thread, &attributes, use_all, arguments[1]) == 0);
    struct rlimit limit = {0};
    require(getrlimit(RLIMIT_DATA, &limit) == 0);
    limit.rlim_cur = MOST_BYTES;
    require(setrlimit(RLIMIT_DATA, &limit) == 0);
    pthread_barrier_wait(&freed);

    enum { MINE = 2500 };
    static char *mine[MINE];
    for (int i = 0; i < MINE; i++) {
        mine[i] = allocate(arguments[1]);
        require(mine[i] != NULL);
        fill(mine[i], SIZE);
    }
    for (int i = 0; i < MINE; i++) {
        require(is_filled(mine[i], SIZE));
        free(mine[i]);
    }
    free(first);
    pthread_barrier_wait(&done);
    require(pthread_join(thread, NULL) == 0);
    return 0;
}
