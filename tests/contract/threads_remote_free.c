/* SPDX-License-Identifier: MIT
 *
 * threads_remote_free.c: one thread allocates, another frees, for ever.
 *
 * A thread cache that only grows at the freeing side, or memory that goes back to an arena from
 * which nobody allocates, makes such a program swell without bound.
 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/contract/contract.h"

enum { SLOTS = 256, ITEMS = 400000 };
static void *slots[SLOTS];
static size_t head, tail; /* of the ring; guarded by lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void *free_all(void *unused)
{
    (void)unused;
    for (size_t item = 0; item < ITEMS; item++) {
        pthread_mutex_lock(&lock);
        while (tail == head)
            pthread_cond_wait(&changed, &lock);
        void *block = slots[tail++ % SLOTS];
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
        require(is_filled(block, 64));
        free(block);
    }
    return NULL;
}

/* getrusage also counts what the process was before exec: a copy of its parent. */
static long peak_kilobytes(void)
{
    char status[4096] = "";
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    require(file >= 0 && read(file, status, sizeof status - 1) > 0);
    close(file);
    const char *line = strstr(status, "VmHWM:");
    require(line != NULL);
    return strtol(line + strlen("VmHWM:"), NULL, 10);
}

int main(void)
{
    pthread_t consumer;
    require(pthread_create(&consumer, NULL, free_all, NULL) == 0);
    uint64_t random = 1;
    for (size_t item = 0; item < ITEMS; item++) {
        void *block = malloc(64 + random_next(&random) % 1000);
        require(block != NULL);
        fill(block, 64);
        pthread_mutex_lock(&lock);
        while (head - tail == SLOTS)
            pthread_cond_wait(&changed, &lock);
        slots[head++ % SLOTS] = block;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    require(pthread_join(consumer, NULL) == 0);
    require(peak_kilobytes() < 40 * 1024); /* all items together are 220 MB */
    return 0;
}
