/* SPDX-License-Identifier: MIT
 *
 * threads_destructors.c: a thread allocates and frees after the allocator's own thread
 * destructor ran.
 *
 * Destructors of thread-specific data run in rounds, those that were set again in the next one,
 * C++ thread_local objects before them, and libc frees its own per-thread buffers after all. A
 * thread cache that has been given back must not be touched, nor a new one leak.
 * Seen: mimalloc PR 1289.
 */
#include <limits.h>
#include <pthread.h>

#include "tests/contract/contract.h"

enum { KEYS = 20, THREADS = 8 };
static pthread_key_t keys[KEYS];
static _Atomic int destructions;

extern void *__dso_handle;
int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *dso_handle);

static void allocate_and_set_again(void *value)
{
    destructions++;
    require(is_filled(value, 64));
    free(value);
    exercise();
    void *again = malloc(64);
    require(again != NULL);
    fill(again, 64);
    /* glibc stops after PTHREAD_DESTRUCTOR_ITERATIONS rounds; what is set then leaks. */
    pthread_setspecific(keys[destructions % KEYS], again);
}

static void destroy_thread_local(void *value)
{
    require(is_filled(value, 5000));
    free(value);
    exercise();
}

static void *run(void *unused)
{
    (void)unused;
    for (int i = 0; i < KEYS; i++) {
        void *value = malloc(64);
        require(value != NULL);
        fill(value, 64);
        require(pthread_setspecific(keys[i], value) == 0);
    }
    void *object = malloc(5000);
    require(object != NULL);
    fill(object, 5000);
    require(__cxa_thread_atexit_impl(destroy_thread_local, object, &__dso_handle) == 0);
    require(strstr(strerror(9999), "9999") != NULL); /* a buffer that libc frees last */
    return NULL;
}

static void *only_exercise(void *unused)
{
    exercise();
    return unused;
}

int main(void)
{
    for (int i = 0; i < KEYS / 2; i++) /* before the allocator has a reason to make its own */
        require(pthread_key_create(&keys[i], allocate_and_set_again) == 0);
    pthread_t first;
    require(pthread_create(&first, NULL, only_exercise, NULL) == 0);
    require(pthread_join(first, NULL) == 0);
    for (int i = KEYS / 2; i < KEYS; i++)
        require(pthread_key_create(&keys[i], allocate_and_set_again) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, run, NULL) == 0);
        require(pthread_join(thread, NULL) == 0);
    }
    require(destructions >= THREADS * KEYS);
    exercise();
    return 0;
}
