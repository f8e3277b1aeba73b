/* SPDX-License-Identifier: MIT
 *
 * exit_handlers.c: allocation goes on while and after the process is torn down.
 *
 * Exit handlers, destructors of the program and of libraries closed by exit, and threads that
 * nobody joined still allocate and free when an allocator that registered a handler early has
 * already been finished.
 * Seen: mimalloc 508, 974.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "tests/contract/contract.h"

static void *kept_small, *kept_large;

static void *hammer(void *unused)
{
    (void)unused;
    for (;;)
        exercise();
    return NULL;
}

static void use_heap(void)
{
    require(is_filled(kept_small, 100) && is_filled(kept_large, 1000000));
    exercise();
}

static void use_heap_on_exit(int status, void *block)
{
    require(status == 7);
    require(is_filled(block, 50));
    free(block);
    use_heap();
}

__attribute__((destructor)) static void last_of_all(void)
{
    use_heap();
    free(kept_small);
    free(kept_large);
    exercise();
}

int main(int count, char **arguments)
{
    require(count == 2 && dlopen(arguments[1], RTLD_NOW) != NULL);
    kept_small = malloc(100);
    kept_large = malloc(1000000);
    void *block = malloc(50);
    require(kept_small && kept_large && block);
    fill(kept_small, 100);
    fill(kept_large, 1000000);
    fill(block, 50);
    require(atexit(use_heap) == 0 && on_exit(use_heap_on_exit, block) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, hammer, NULL) == 0);
        require(pthread_detach(thread) == 0);
    }
    usleep(20000);
    exit(7);
}
