/* SPDX-License-Identifier: MIT
 *
 * threads_main_leaves.c: the first thread ends, the others go on.
 *
 * An allocator that takes the first thread's end for the process's tears down what the others
 * still use.
 */
#include <pthread.h>

#include "tests/contract/contract.h"

static pthread_t first;

static void *outlive(void *block)
{
    require(pthread_join(first, NULL) == 0);
    require(is_filled(block, 10000));
    free(block);
    for (int i = 0; i < 100; i++)
        exercise();
    exit(0);
}

int main(void)
{
    first = pthread_self();
    void *block = malloc(10000);
    require(block != NULL);
    fill(block, 10000);
    pthread_t thread;
    require(pthread_create(&thread, NULL, outlive, block) == 0);
    pthread_exit(NULL);
}
