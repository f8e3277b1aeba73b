/* SPDX-License-Identifier: MIT
 *
 * threads_short.c: ten thousand threads, one after the other, each of which allocates a little.
 *
 * What a thread's cache holds when it ends must come back: glibc leaked it once (bug 22111), 10 KB
 * a thread.
 */
#include <pthread.h>

#include "tests/contract/contract.h"

enum { THREADS = 10000, MOST_BYTES = 24 << 20 };

static size_t resident_bytes(void)
{
    unsigned long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    require(file && fscanf(file, "%lu %lu", &size, &resident) == 2);
    fclose(file);
    return resident * 4096;
}

static void *allocate_little(void *left)
{
    void *blocks[40];
    for (int i = 0; i < 40; i++) {
        blocks[i] = malloc(16 + i * 25);
        require(blocks[i] != NULL);
        memset(blocks[i], i, 16);
    }
    for (int i = 0; i < 40; i++)
        free(blocks[i]);
    free(left);
    return malloc(64);
}

int main(void)
{
    void *left = NULL;
    size_t before = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (i == THREADS / 20)
            before = resident_bytes();
        require(pthread_create(&thread, NULL, allocate_little, left) == 0);
        require(pthread_join(thread, &left) == 0);
    }
    free(left);
    require(resident_bytes() < before + MOST_BYTES);
    return 0;
}
