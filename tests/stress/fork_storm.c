/* SPDX-License-Identifier: MIT
 *
 * fork_storm.c: processes are made in every way at once, while other threads are in the heap.
 *
 *   fork_storm FORKS handlers|libc
 *
 * Threads, besides the first:
 *
 *     two         allocate, resize and free, from a few bytes to what is mapped
 *     two         fork, and do so in between; the child uses the heap, stdio and a thread
 *     one         makes processes without fork handlers by turns: posix_spawn, vfork, system
 *     handlers    one is in the heap, and a signal handler interrupts it anywhere, and forks
 *     libc        one uses by turns what fork takes libc's locks for, and allocates under them:
 *                 getline beside fflush of all files, getpwnam, popen
 *
 * The first thread flushes all files, and sends a signal whenever the handler of the last is over.
 * After FORKS forks of each of the two all end. Only counts say how long that is. Where no fork has
 * succeeded for ten minutes SIGALRM ends it, and so each child that lives as long.
 *
 * Handlers and libc's locks do not go together, whatever the allocator: the fork of a handler that
 * interrupted malloc waits for a lock whose holder may wait for what the interrupted malloc holds.
 *
 * What happens between the threads is not in a program's hands, so this proves little when it
 * passes once: what it has found has tests of its own (tests/vm/test_freeze.c).
 */
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"

enum { ENTRIES = 64, PAUSE_US = 1000, HANG_SECONDS = 600 };

extern char **environ;
static int forks_wanted;
static _Atomic bool stop;
static _Atomic int handled, forked;

/* Processes. */

static void await(pid_t child)
{
    int status;
    require(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

/* A malloc that interrupted another has no business in a child of several threads: it executes. */
static void fork_in_handler(int number)
{
    (void)number;
    int error = errno;
    pid_t child = fork();
    if (child == 0) {
        alarm(HANG_SECONDS);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    await(child);
    handled++;
    errno = error;
}

static void block_signal(void)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    require(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
}

static void spawn_once(int turn)
{
    static char *const words[] = {(char *)(uintptr_t) "true", NULL};
    pid_t child;
    switch (turn % 3) {
    case 0:
        require(posix_spawn(&child, "/bin/true", NULL, NULL, words, environ) == 0);
        await(child);
        break;
    case 1:
        child = vfork();
        if (child == 0) {
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        await(child);
        break;
    case 2:
        require(system("true") == 0); /* NOLINT(cert-env33-c) */
        break;
    }
}

/* The heap. */

struct heap_user {
    uint64_t random;
    char *blocks[ENTRIES];
    size_t sizes[ENTRIES];
};

static size_t looked_at(size_t size)
{
    return size < 64 ? size : 64;
}

static void use_once(struct heap_user *user)
{
    uint64_t number = random_next(&user->random);
    size_t place = number % ENTRIES, size = 1 + (number >> 16) % 3000;
    if ((number >> 40) % 50 == 0)
        size += 200000;
    char *old = user->blocks[place];
    require(!old || is_filled(old, looked_at(user->sizes[place])));
    if (old && (number >> 48 & 1)) {
        user->blocks[place] = realloc(old, size);
    } else {
        free(old);
        user->blocks[place] = number >> 49 & 7 ? malloc(size) : aligned_alloc(256, size);
    }
    require(user->blocks[place] != NULL);
    user->sizes[place] = size;
    fill(user->blocks[place], looked_at(size));
}

static void use_heap(struct heap_user *user, int times)
{
    for (int i = 0; i < times; i++)
        use_once(user);
}

static void free_all(struct heap_user *user)
{
    for (int i = 0; i < ENTRIES; i++) {
        require(!user->blocks[i] || is_filled(user->blocks[i], looked_at(user->sizes[i])));
        free(user->blocks[i]);
    }
}

/* Children. */

static void *use_briefly(void *seed)
{
    struct heap_user user = {.random = (uintptr_t)seed};
    use_heap(&user, 30);
    free_all(&user);
    return NULL;
}

static _Noreturn void be_child(struct heap_user *user)
{
    char *line = NULL;
    size_t capacity = 0;
    pthread_t thread;
    alarm(HANG_SECONDS);
    use_heap(user, 50);
    fflush(NULL);
    FILE *file = fopen("/proc/self/status", "r");
    require(file && getline(&line, &capacity, file) > 0);
    fclose(file);
    free(line);
    require(pthread_create(&thread, NULL, use_briefly, (void *)1) == 0);
    require(pthread_join(thread, NULL) == 0);
    free_all(user);
    malloc_trim(0);
    _exit(0);
}

/* The threads. */

static void *allocate(void *seed)
{
    struct heap_user user = {.random = (uintptr_t)seed};
    block_signal();
    while (!stop)
        use_heap(&user, 200);
    free_all(&user);
    return NULL;
}

static void *be_interrupted(void *seed)
{
    struct heap_user user = {.random = (uintptr_t)seed};
    while (!stop)
        use_heap(&user, 200);
    block_signal();
    free_all(&user);
    return NULL;
}

static void *fork_often(void *seed)
{
    struct heap_user user = {.random = (uintptr_t)seed};
    block_signal();
    for (int i = 0; i < forks_wanted; i++) {
        use_heap(&user, 20);
        pid_t child = fork();
        if (child == 0)
            be_child(&user);
        await(child);
        forked++;
    }
    free_all(&user);
    return NULL;
}

static void *use_libc(void *unused)
{
    block_signal();
    for (int turn = 0; !stop; turn++) {
        char text[16], *line = NULL;
        size_t capacity = 0;
        FILE *file = fopen("/proc/self/limits", "r");
        require(file != NULL);
        while (getline(&line, &capacity, file) > 0)
            fflush(NULL);
        free(line);
        fclose(file);
        require(getpwnam(turn % 2 ? "root" : "nobody-at-all") || turn % 2 == 0);
        FILE *pipe = popen("echo piped", "r"); /* NOLINT(cert-env33-c) */
        require(pipe && fgets(text, sizeof text, pipe) && strcmp(text, "piped\n") == 0);
        require(pclose(pipe) == 0);
    }
    return unused;
}

static void *spawn_often(void *unused)
{
    block_signal();
    for (int turn = 0; !stop; turn++)
        spawn_once(turn);
    return unused;
}

static const struct {
    const char *kind; /* NULL: both */
    void *(*work)(void *);
} works[] = {{NULL, allocate},   {NULL, allocate},    {NULL, fork_often},
             {NULL, fork_often}, {NULL, spawn_often}, {"handlers", be_interrupted},
             {"libc", use_libc}};
enum { WORKS = sizeof works / sizeof *works, FORKING = 2 };

/* Returns how many there are. The last is the one that `kind` asks for. */
static int start_threads(pthread_t *threads, const char *kind)
{
    int started = 0;
    for (int i = 0; i < WORKS; i++)
        if (!works[i].kind || strcmp(works[i].kind, kind) == 0)
            require(pthread_create(&threads[started++], NULL, works[i].work, (void *)(i + 1L)) ==
                    0);
    return started;
}

static void await_forks(pthread_t interrupted)
{
    for (int sent = 0, seen = -1; forked < FORKING * forks_wanted;) {
        if (seen != forked) {
            seen = forked;
            alarm(HANG_SECONDS);
        }
        if (interrupted && sent == handled && pthread_kill(interrupted, SIGUSR1) == 0)
            sent++;
        fflush(NULL);
        usleep(PAUSE_US);
    }
}

int main(int count, char **words)
{
    pthread_t threads[WORKS];
    require(count == 3 && atoi(words[1]) > 0);
    bool with_handlers = strcmp(words[2], "handlers") == 0;
    require(with_handlers || strcmp(words[2], "libc") == 0);
    forks_wanted = atoi(words[1]);
    require(signal(SIGUSR1, fork_in_handler) != SIG_ERR);
    int started = start_threads(threads, words[2]);
    await_forks(with_handlers ? threads[started - 1] : 0);
    stop = true;
    for (int i = 0; i < started; i++)
        require(pthread_join(threads[i], NULL) == 0);
    printf("%d forks, %d in handlers\n", forked, handled);
    return 0;
}
