/* SPDX-License-Identifier: MIT
 *
 * in_handlers.c: malloc where a program hardly runs any more, or hardly yet.
 *
 * In constructors, in handlers of atexit, on_exit and at_quick_exit, in destructors of thread-local
 * and of thread-specific data, in a signal handler that interrupts nothing (sigsuspend), in a
 * cancelled thread's cleanup, and in fork handlers.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"

static int calls;
static void *kept;

static void use(void)
{
    void *before = kept;
    kept = malloc(1000 + (size_t)calls * 100);
    require(kept != NULL);
    free(before);
    exercise();
    calls++;
}

__attribute__((constructor(101))) static void construct_early(void)
{
    use();
}

__attribute__((constructor)) static void construct(void)
{
    use();
}

__attribute__((destructor)) static void destruct(void)
{
    use();
}

static void on_signal(int number)
{
    (void)number;
    use();
}

static void on_exit_handler(int status, void *argument)
{
    free(argument);
    require(status == 0);
    use();
}

static void on_key(void *block)
{
    free(block);
    use();
}

static void *wait_for_cancel(void *key)
{
    require(pthread_setspecific(*(pthread_key_t *)key, malloc(100)) == 0);
    pthread_cleanup_push(free, malloc(3000));
    for (;;)
        pause();
    pthread_cleanup_pop(1);
    return NULL;
}

static void use_in_threads(void)
{
    pthread_key_t key;
    require(pthread_key_create(&key, on_key) == 0);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, wait_for_cancel, &key) == 0);
        require(pthread_cancel(thread) == 0);
        require(pthread_join(thread, NULL) == 0);
    }
}

static void use_in_signal(void)
{
    sigset_t blocked, none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    require(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 10; i++) {
        require(raise(SIGUSR1) == 0);
        sigsuspend(&none);
    }
}

static void use_around_fork(void)
{
    require(pthread_atfork(use, use, use) == 0);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        require(child >= 0);
        if (child == 0) {
            use();
            quick_exit(7);
        }
        int status;
        require(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    }
}

int main(void)
{
    require(calls == 2);
    require(atexit(use) == 0 && at_quick_exit(use) == 0);
    require(on_exit(on_exit_handler, malloc(10)) == 0);
    use_in_signal();
    require(calls == 12);
    use_in_threads();
    use_around_fork();
    return 0;
}
