/* SPDX-License-Identifier: MIT
 *
 * hiders.c: libraries that hide pointers: hiders LIBRARY CASE. The library is hider.c under some
 * name, or linked into the program.
 *
 *     early, late        what it allocated before the first collection, and after it, is kept
 *     opened             the same when it was opened between two collections
 *     grown              and resized since
 *     entries            addresses before their blocks
 *     foreign            a block of the program's, of which only the library has the distance
 *     returned           what it frees is used again
 *     frees              what a collection may have found dead is freed
 *     resized            or resized in its place
 *     shown              or pointed to
 *     lost               and freed; nothing has been allocated in between
 *     bad-free           nothing is hidden, and a pointer into a block is freed
 *     thread-ended       nothing is hidden: an ended thread's stack, of which a collection has
 *                        seen a part, still has the addresses of blocks that were forgotten
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

#include "tests/gc/traps/trap.h"

enum { PATTERNS = 50 };

struct pattern;
static struct pattern *(*pattern_new)(void);
static bool (*pattern_is_whole)(struct pattern *pattern);
static void (*pattern_take)(struct pattern *pattern, char *block);
static void (*pattern_grow)(struct pattern *pattern);
static void (*pattern_resize)(struct pattern *pattern);
static void (*pattern_free)(struct pattern *pattern);
static void *(*pattern_elements)(struct pattern *pattern);
static void (*entry_new)(void);
static bool (*entries_are_whole)(void);

static struct pattern *patterns[PATTERNS];
static void *volatile shown[PATTERNS];

static void open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    require(library != NULL);
    pattern_new = dlsym(library, "pattern_new");
    pattern_is_whole = dlsym(library, "pattern_is_whole");
    pattern_take = dlsym(library, "pattern_take");
    pattern_grow = dlsym(library, "pattern_grow");
    pattern_resize = dlsym(library, "pattern_resize");
    pattern_free = dlsym(library, "pattern_free");
    pattern_elements = dlsym(library, "pattern_elements");
    entry_new = dlsym(library, "entry_new");
    entries_are_whole = dlsym(library, "entries_are_whole");
}

__attribute__((noinline)) static void make_patterns(void)
{
    for (int i = 0; i < PATTERNS; i++)
        patterns[i] = pattern_new();
}

static int whole_patterns(void)
{
    int whole = 0;
    for (int i = 0; i < PATTERNS; i++)
        whole += pattern_is_whole(patterns[i]);
    return whole;
}

/* Blocks of the program's, in which nothing looks like an address. */
__attribute__((noinline)) static void take_foreign(void)
{
    for (int i = 0; i < PATTERNS; i++)
        pattern_take(patterns[i], signed_block());
}

__attribute__((noinline)) static void make_entries(void)
{
    for (int i = 0; i < PATTERNS; i++)
        entry_new();
}

/* A pattern's three blocks a hundred thousand times would be 33 MB. */
static void make_and_free(void)
{
    for (int i = 0; i < 100000; i++)
        pattern_free(pattern_new());
    require(mallinfo2().arena < (size_t)20 << 20);
}

/* Twice, since auto reclaims only what it has found twice. */
static void collect_twice(void)
{
    collect();
    collect();
}

/* Where the stack goes on being in memory when the thread has ended, and what it does until then
 * writes nothing. */
__attribute__((noinline)) static void leave_addresses(void)
{
    void *volatile deep[PATTERNS + 1000];
    for (int i = 0; i < PATTERNS; i++)
        deep[i] = signed_block();
    __asm__ volatile("" ::"r"(deep) : "memory");
}

static pthread_barrier_t barrier;

static void *forget(void *unused)
{
    leave_addresses();
    pthread_barrier_wait(&barrier); /* forgotten */
    pthread_barrier_wait(&barrier); /* found dead */
    return unused;
}

static void thread_ended(void)
{
    pthread_t thread;
    require(pthread_barrier_init(&barrier, NULL, 2) == 0);
    require(pthread_create(&thread, NULL, forget, NULL) == 0);
    pthread_barrier_wait(&barrier);
    collect();
    pthread_barrier_wait(&barrier);
    require(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 3; i++)
        collect();
}

/* Collections that have found a pattern dead twice have reclaimed it. */
static void free_lost(void)
{
    for (int i = 0; i < 3; i++) {
        clean_stack();
        malloc_trim(0);
    }
    for (int i = 0; i < PATTERNS; i++)
        pattern_free(patterns[i]);
}

int main(int count, char **arguments)
{
    require(count == 3);
    /* "linked": what the program has of the library itself */
    const char *path = strcmp(arguments[1], "linked") ? arguments[1] : NULL, *name = arguments[2];
    if (!strcmp(name, "thread-ended")) {
        thread_ended();
        return 0;
    }
    if (!strcmp(name, "opened"))
        collect_twice();
    if (!strcmp(name, "bad-free"))
        free((char *)signed_block() + 16);
    open_library(path);
    if (!strcmp(name, "late") || !strcmp(name, "foreign") || !strcmp(name, "grown"))
        collect_twice(); /* at which the library is found */
    make_patterns();
    if (!strcmp(name, "entries"))
        make_entries();
    if (!strcmp(name, "foreign"))
        take_foreign();
    clean_stack();
    if (!strcmp(name, "lost"))
        free_lost();
    if (!strcmp(name, "grown"))
        for (int i = 0; i < PATTERNS; i++)
            pattern_grow(patterns[i]);
    if (!strcmp(name, "frees")) {
        collect();
        for (int i = 0; i < PATTERNS / 2; i++)
            pattern_free(patterns[i]);
        for (int i = 0; i < PATTERNS / 2; i++)
            patterns[i] = pattern_new();
    }
    if (!strcmp(name, "resized")) {
        collect();
        for (int i = 0; i < PATTERNS; i++)
            pattern_resize(patterns[i]);
    }
    if (!strcmp(name, "shown")) {
        collect();
        for (int i = 0; i < PATTERNS; i++)
            shown[i] = pattern_elements(patterns[i]);
        collect();
    }
    if (!strcmp(name, "returned"))
        make_and_free();
    collect_twice();
    require(entries_are_whole());
    require(whole_patterns() == PATTERNS);
    for (int i = 0; i < PATTERNS; i++)
        pattern_free(patterns[i]);
    return 0;
}
