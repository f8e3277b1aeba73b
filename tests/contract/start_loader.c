/* SPDX-License-Identifier: MIT
 *
 * start_loader.c: ld.so's own memory.
 *
 * The dynamic loader allocates through the interposed malloc: records of libraries, messages of
 * dlerror, and on first use the thread-local blocks of a library that was opened late, which it
 * frees when the thread ends or the library goes.
 * Seen: google/sanitizers 179, tcmalloc 296.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "tests/contract/contract.h"

static const char *library;

static void *use_library(void *unused)
{
    (void)unused;
    for (int round = 0; round < 20; round++) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        require(handle != NULL);
        char *(*touch)(void) = (char *(*)(void))dlsym(handle, "touch_thread_local");
        require(touch && touch()[0] == 'x');
        require(dlsym(handle, "no_such_symbol") == NULL && dlerror() != NULL);
        require(dlclose(handle) == 0);
        require(dlopen("/no/such/library.so", RTLD_NOW) == NULL && dlerror() != NULL);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    require(count == 2);
    library = arguments[1];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        require(pthread_create(&threads[i], NULL, use_library, NULL) == 0);
    for (int i = 0; i < 4; i++)
        require(pthread_join(threads[i], NULL) == 0);
    use_library(NULL);
    exercise();
    return 0;
}
