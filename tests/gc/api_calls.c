/* SPDX-License-Identifier: MIT
 *
 * api_calls.c: what the functions of allotrope/gc.h promise under every allocator, a case at a
 * time. Exit status 0: it is so; 99, with a line: not so; 77: this build of it has no library.
 */
#include <allotrope/gc.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define require(condition)                                                                       \
    ((condition) ? (void)0                                                                       \
                 : (fprintf(stderr, "%d: not so: %s (errno %d)\n", __LINE__, #condition, errno), \
                    _exit(99)))

enum { BLOCKS = 200, BYTES = 3000 };

static char *blocks[BLOCKS];

static void make_blocks(void)
{
    for (int i = 0; i < BLOCKS; i++)
        require((blocks[i] = malloc(BYTES)) != NULL);
}

static bool is_collector(void)
{
    struct allotrope_gc_statistics statistics;
    int error = allotrope_gc_read_statistics(&statistics, sizeof statistics);
    require(error == 0 || error == ENOTSUP);
    return error == 0;
}

static void arguments(void)
{
    int local;
    errno = EDOM;
    require(allotrope_gc_add_roots(NULL, 8) == EINVAL);
    require(allotrope_gc_add_roots(&local, 0) == EINVAL);
    require(allotrope_gc_add_roots(&local, SIZE_MAX) == EINVAL);
    require(allotrope_gc_remove_roots(NULL, 8) == EINVAL);
    require(allotrope_gc_remove_roots(&local, 8) == ENOENT);
    require(allotrope_gc_pin(NULL) == EINVAL);
    require(allotrope_gc_unpin(NULL) == EINVAL);
    require(allotrope_gc_unpin(&local) == ENOENT);
    require(allotrope_gc_walk(NULL, NULL) == EINVAL);
    require(allotrope_gc_read_statistics(NULL, 8) == EINVAL);
    int error = allotrope_gc_collect();
    require(error == 0 || error == EAGAIN || error == ENOTSUP);
    require(errno == EDOM);
    require(allotrope_gc_malloc_pointer_free(SIZE_MAX) == NULL && errno == ENOMEM);
    errno = EDOM;
    require(allotrope_gc_hide(NULL) == 0 && errno == EINVAL);
    require(allotrope_gc_reveal(0) == NULL);
}

static void hidden(void)
{
    char *block = malloc(BYTES);
    uintptr_t first = allotrope_gc_hide(block), second = allotrope_gc_hide(block);
    require(first == second && first != (uintptr_t)block);
    require(allotrope_gc_reveal(first) == block && allotrope_gc_reveal(second) == block);
    require(allotrope_gc_unpin(block) == ENOENT);
    free(block);
}

static void pointer_free(void)
{
    for (size_t bytes = 0; bytes < 300000; bytes = 3 * bytes + 1) {
        char *block = allotrope_gc_malloc_pointer_free(bytes);
        require(block != NULL && (uintptr_t)block % 16 == 0);
        memset(block, 'p', bytes);
        allotrope_gc_collect();
        require(bytes == 0 || block[bytes - 1] == 'p');
        block = realloc(block, 2 * bytes + 1);
        require(block != NULL && (bytes == 0 || block[bytes - 1] == 'p'));
        free(block);
        free(allotrope_gc_malloc_pointer_free(bytes));
    }
}

static void statistics(void)
{
    struct allotrope_gc_statistics all, before = {0};
    if (!is_collector()) {
        require(allotrope_gc_read_statistics(&before, sizeof before) == ENOTSUP);
        require(before.collections == 0);
        return;
    }
    struct {
        uint64_t collections, untouched;
    } some = {0, 4711};
    require(allotrope_gc_read_statistics((void *)&some, sizeof some.collections) == 0);
    require(some.untouched == 4711);
    int error = allotrope_gc_collect();
    require(allotrope_gc_read_statistics(&all, sizeof all) == 0);
    require(error || all.collections > some.collections);
    require(all.pause_ns >= all.longest_pause_ns && all.given_up != UINT64_MAX);
    struct {
        struct allotrope_gc_statistics known;
        uint64_t later;
    } more;
    require(allotrope_gc_read_statistics(&more.known, sizeof more) == 0);
    require(more.later == UINT64_MAX && more.known.collections >= all.collections);
}

/* Walks. */

struct met {
    int live[BLOCKS], others, depth, most;
    bool calls; /* what the program may call */
};

static int meet(void *argument, void *address, size_t bytes, enum allotrope_gc_state state)
{
    struct met *met = argument;
    int i = 0;
    while (i < BLOCKS && blocks[i] != address)
        i++;
    if (i == BLOCKS || state != ALLOTROPE_GC_LIVE)
        met->others++;
    else
        met->live[i] += bytes >= BYTES;
    if (met->calls && i % 20 == 0) {
        struct met inner = {.depth = met->depth + 1};
        free(malloc(bytes));
        allotrope_gc_collect();
        if (inner.depth < 2)
            allotrope_gc_walk(meet, &inner);
    }
    return met->most > 0 && --met->most == 0;
}

/* Each block once. */
static void require_all(const struct met *met)
{
    for (int i = 0; i < BLOCKS; i++)
        require(met->live[i] == 1);
}

static void walk(void)
{
    struct met met = {0};
    make_blocks();
    require(allotrope_gc_walk(meet, &met) == 0);
    require_all(&met);
    free(blocks[7]);
    blocks[7] = blocks[8];
    memset(&met, 0, sizeof met);
    require(allotrope_gc_walk(meet, &met) == 0);
    require(met.live[7] == 1 && met.live[6] == 1);
}

static void walk_calls(void)
{
    struct met met = {.calls = true};
    make_blocks();
    require(allotrope_gc_walk(meet, &met) == 0);
    require_all(&met);
}

static void walk_ends(void)
{
    struct met met = {.most = 5};
    int seen = 0;
    make_blocks();
    require(allotrope_gc_walk(meet, &met) == 0);
    for (int i = 0; i < BLOCKS; i++)
        seen += met.live[i];
    require(met.most == 0 && seen + met.others == 5);
}

static void walk_without_memory(void)
{
    struct met met = {0};
    make_blocks();
    struct rlimit limit = {1 << 20, 1 << 20}; /* less than is mapped already */
    require(setrlimit(RLIMIT_AS, &limit) == 0);
    require(allotrope_gc_walk(meet, &met) == ENOMEM);
    require(met.others == 0 && met.live[0] == 0);
}

static _Atomic bool stop;

static void *churn(void *unused)
{
    void *held[64] = {NULL};
    for (unsigned i = 0; !stop; i = i * 1103515245 + 12345) {
        void **place = &held[i / 65536 % 64];
        free(*place);
        *place = i % 3 ? malloc(i % 5000) : allotrope_gc_malloc_pointer_free(i % 5000);
        if (*place && allotrope_gc_pin(*place) == 0)
            require(allotrope_gc_unpin(*place) == 0);
    }
    for (int i = 0; i < 64; i++)
        free(held[i]);
    return unused;
}

static int look(void *argument, void *address, size_t bytes, enum allotrope_gc_state state)
{
    (void)address, (void)bytes, (void)state;
    ++*(int *)argument;
    return 0;
}

static void threads(void)
{
    enum { THREADS = 3, ROUNDS = 20 };
    pthread_t made[THREADS];
    struct met met = {0};
    make_blocks();
    for (int i = 0; i < THREADS; i++)
        require(pthread_create(&made[i], NULL, churn, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        int count = 0, error = allotrope_gc_walk(look, &count);
        require((error == 0 && count >= BLOCKS) || error == EAGAIN);
        allotrope_gc_collect();
    }
    stop = true;
    for (int i = 0; i < THREADS; i++)
        require(pthread_join(made[i], NULL) == 0);
    require(allotrope_gc_walk(meet, &met) == 0);
    require_all(&met);
}

/* Forks. */

static uintptr_t complements[BLOCKS];
static int in_handler;

/* What is asked for here may be put off, but is never waited for, and nothing is lost. */
static void handler(void)
{
    struct met met = {0};
    int error = allotrope_gc_collect();
    require(error == EAGAIN || error == ENOTSUP || error == 0);
    error = allotrope_gc_walk(meet, &met);
    require(error == EAGAIN || error == 0);
    require(allotrope_gc_pin(blocks[0]) == 0);
    require(allotrope_gc_add_roots(blocks, sizeof blocks) == 0);
    free(allotrope_gc_malloc_pointer_free(100));
    in_handler++;
}

static __attribute__((noinline)) void hide_all(void)
{
    make_blocks();
    for (int i = 0; i < BLOCKS; i++) {
        memset(blocks[i], 'h', BYTES);
        complements[i] = allotrope_gc_hide(blocks[i]);
        require(complements[i] != 0);
    }
    memset(blocks, 0, sizeof blocks);
}

static void collect_and_overwrite(void)
{
    for (int i = 0; i < 3; i++)
        allotrope_gc_collect();
    for (int i = 0; i < 3 * BLOCKS; i++) {
        char *other = malloc(BYTES);
        require(other != NULL);
        memset(other, 'x', BYTES);
    }
}

static void require_hidden(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        char *block = allotrope_gc_reveal(complements[i]);
        require(block[0] == 'h' && block[BYTES - 1] == 'h');
        require(allotrope_gc_unpin(block) == ENOENT);
        free(block);
    }
}

static void require_child(void (*body)(void))
{
    int status;
    pid_t child = fork();
    require(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    require(waitpid(child, &status, 0) == child && status == 0);
}

static void in_child(void)
{
    collect_and_overwrite();
    require_hidden();
}

static void forks(void)
{
    hide_all();
    require_child(in_child);
    collect_and_overwrite();
    require_hidden();
}

static void fork_handlers(void)
{
    make_blocks();
    require(pthread_atfork(handler, handler, handler) == 0);
    require_child(collect_and_overwrite);
    require(in_handler == 2);
    require(allotrope_gc_unpin(blocks[0]) == 0 && allotrope_gc_unpin(blocks[0]) == 0);
    require(allotrope_gc_unpin(blocks[0]) == ENOENT);
    require(allotrope_gc_remove_roots(blocks, sizeof blocks) == 0);
}

static void forks_beside_threads(void)
{
    pthread_t made[2];
    for (int i = 0; i < 2; i++)
        require(pthread_create(&made[i], NULL, churn, NULL) == 0);
    for (int i = 0; i < 30; i++)
        require_child(collect_and_overwrite);
    stop = true;
    for (int i = 0; i < 2; i++)
        require(pthread_join(made[i], NULL) == 0);
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*body)(void);
    } cases[] = {
        {"arguments", arguments},
        {"hidden", hidden},
        {"pointer-free", pointer_free},
        {"statistics", statistics},
        {"walk", walk},
        {"walk-calls", walk_calls},
        {"walk-ends", walk_ends},
        {"walk-without-memory", walk_without_memory},
        {"threads", threads},
        {"forks", forks},
        {"fork-handlers", fork_handlers},
        {"forks-beside-threads", forks_beside_threads},
    };
    if (!allotrope_gc_collect)
        return 77;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (count > 1 && strcmp(words[1], cases[i].name) == 0) {
            cases[i].body();
            return 0;
        }
    fprintf(stderr, "no case of that name\n");
    return 2;
}
