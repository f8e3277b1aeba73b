/* SPDX-License-Identifier: MIT
 *
 * fork_handlers.c: the program's own fork handlers allocate and free.
 *
 * Handlers run before and after the allocator's, depending on which was registered first; with
 * glibc's allocator they may allocate in any order. With the argument "early" they are
 * registered before the process's first malloc.
 * Seen: jemalloc 315, 1805.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"

static void *prepared;
static int parents;
static _Atomic bool stop;

static void prepare(void)
{
    exercise();
    prepared = malloc(200);
    require(prepared != NULL);
    fill(prepared, 200);
}

static void in_parent(void)
{
    require(is_filled(prepared, 200));
    free(prepared);
    exercise();
    parents++;
}

static void in_child(void)
{
    alarm(600);
    require(is_filled(prepared, 200));
    free(prepared);
    exercise();
}

static void register_early(int count, char **arguments, char **variables)
{
    (void)variables;
    alarm(600);
    if (count == 2 && strcmp(arguments[1], "early") == 0)
        require(pthread_atfork(prepare, in_parent, in_child) == 0);
}

__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **,
                                                                        char **) = register_early;

static void *hammer(void *unused)
{
    while (!stop)
        exercise();
    return unused;
}

int main(int count, char **arguments)
{
    (void)arguments;
    exercise();
    if (count == 1)
        require(pthread_atfork(prepare, in_parent, in_child) == 0);
    pthread_t thread;
    require(pthread_create(&thread, NULL, hammer, NULL) == 0);
    enum { FORKS = 30 };
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        require(child >= 0);
        if (child == 0) {
            exercise();
            _exit(0);
        }
        int status;
        require(waitpid(child, &status, 0) == child && status == 0);
    }
    stop = true;
    require(pthread_join(thread, NULL) == 0);
    require(parents == FORKS);
    return 0;
}
