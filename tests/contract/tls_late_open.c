/* SPDX-License-Identifier: MIT
 *
 * tls_late_open.c: the library is opened by a running program, used by a thread, and closed.
 *
 * Thread-local state in the static block must be small, or dlopen says "cannot allocate memory
 * in static TLS block". When dlclose really unloads the library, the thread-specific key it
 * created calls into nothing as the thread ends.
 * Seen: jemalloc 937, mimalloc 147; mimalloc 809 (unloaded).
 */
#include <dlfcn.h>
#include <pthread.h>

#include "tests/contract/contract.h"

static const char *library;

static void *open_use_and_close(void *unused)
{
    (void)unused;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        fprintf(stderr, "%s\n", dlerror());
    require(handle != NULL);
    void *(*its_malloc)(size_t) = (void *(*)(size_t))dlsym(handle, "malloc");
    void (*its_free)(void *) = (void (*)(void *))dlsym(handle, "free");
    require(its_malloc && its_free && its_malloc != malloc);
    void *block = its_malloc(1000);
    require(block != NULL);
    fill(block, 1000);
    its_free(block);
    require(dlclose(handle) == 0);
    return NULL;
}

int main(int count, char **arguments)
{
    require(count == 2);
    library = arguments[1];
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, open_use_and_close, NULL) == 0);
        require(pthread_join(thread, NULL) == 0);
    }
    exercise();
    return 0;
}
