/* SPDX-License-Identifier: MIT
 *
 * threads_many.c: thousands of threads that each live for a moment, and blocks that outlive them.
 *
 * What a thread kept must be usable by others after its end: otherwise memory grows with every
 * thread that ever lived. Blocks of dead threads are freed by others.
 * Seen: mimalloc PR 1289; the bleeding of arenas in servers.
 */
#include <pthread.h>
#include <sys/resource.h>

#include "tests/contract/contract.h"

enum { THREADS = 3000, AT_ONCE = 8, BLOCKS = 300, SIZE = 400 };

/* All blocks of one thread; every tenth is handed back for the main thread to free. */
static void *live_for_a_moment(void *unused)
{
    (void)unused;
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        require(blocks[i] != NULL);
        fill(blocks[i], SIZE);
    }
    void **left = malloc(BLOCKS / 10 * sizeof *left);
    require(left != NULL);
    for (int i = 0; i < BLOCKS; i++) {
        require(is_filled(blocks[i], SIZE));
        if (i % 10 == 0)
            left[i / 10] = blocks[i];
        else
            free(blocks[i]);
    }
    return left;
}

static void join_and_free(pthread_t thread)
{
    void *result;
    require(pthread_join(thread, &result) == 0);
    void **left = result;
    for (int i = 0; i < BLOCKS / 10; i++) {
        require(is_filled(left[i], SIZE));
        free(left[i]);
    }
    free(left);
}

static long peak_kilobytes(void)
{
    struct rusage usage;
    require(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
}

int main(void)
{
    long after_tenth = 0;
    for (int started = 0; started < THREADS; started += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++)
            require(pthread_create(&threads[i], NULL, live_for_a_moment, NULL) == 0);
        for (int i = 0; i < AT_ONCE; i++)
            join_and_free(threads[i]);
        if (started < THREADS / 10)
            after_tenth = peak_kilobytes();
    }
    /* 2,700 threads later: had each left its 120 KB, this would be 300 MB more. */
    require(peak_kilobytes() < after_tenth + 30 * 1024);
    return 0;
}
