/* SPDX-License-Identifier: MIT
 *
 * fork_list_lock.c: fork waits for a lock of libc whose holder allocates.
 *
 * fork runs the prepare handlers, the allocator's among them, and then takes the lock of stdio's
 * list of files. Here another thread holds that lock: it is in fflush(NULL), which has called the
 * program's own write function of a file. That function allocates and frees, asks for the heap's
 * figures, tunes it, and lets a second thread allocate, which starts and ends meanwhile. Whoever
 * waits there for the thread that forks waits for ever.
 * The write function goes on when the forking thread sleeps in the kernel, so the order is certain.
 * Seen: glibc 19431.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"

enum { FORKS = 4, KEPT = 40 };

static _Atomic int round_begun, forks_prepared;
static pid_t forking_thread;
static FILE *watched;
static void *kept[KEPT];  /* allocated while a fork was prepared; freed by parent and child */
static void *given[KEPT]; /* allocated before; freed while a fork was prepared */
static pthread_barrier_t in_write; /* the flushing thread has the list's lock */

/* Where futex is the call that the thread is in: "202 0x7f...", "running" in none. */
static int is_waiting(pid_t thread)
{
    char name[64], text[256];
    snprintf(name, sizeof name, "/proc/self/task/%d/syscall", thread);
    int file = open(name, O_RDONLY);
    require(file >= 0);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    require(length > 0);
    text[length] = '\0';
    return atoi(text) == SYS_futex;
}

static size_t size_of(int i)
{
    return (size_t[]){24, 100, 1000, 5000, 40000, 300000}[i % 6];
}

static void *allocate_and_free(void *unused)
{
    void *aligned = aligned_alloc(8192, 100);
    require(aligned && (uintptr_t)aligned % 8192 == 0 && malloc_usable_size(aligned) >= 100);
    void *zeroed = calloc(300, 5);
    require(zeroed && !memchr(zeroed, 1, 1500));
    void *grown = strcpy(malloc(10), "resized");
    for (size_t size = 20; size < 1000000; size *= 7) {
        grown = realloc(grown, size);
        require(grown && strcmp(grown, "resized") == 0 && malloc_usable_size(grown) >= size);
    }
    for (size_t size = 700000; size > 8; size /= 7) {
        grown = realloc(grown, size);
        require(grown && strcmp(grown, "resized") == 0);
    }
    free(aligned);
    free(zeroed);
    free(grown);
    for (int i = 0; i < 600; i++) /* more than a thread's own store of free blocks */
        free(malloc((size_t)i));
    return unused;
}

/* From outside. What is told may be out of date. */
static void look_in(void)
{
    struct mallinfo2 info = mallinfo2();
    require(info.uordblks + info.fordblks == info.arena);
    require(mallopt(M_ARENA_MAX, 8) == 1 && mallopt(M_TRIM_THRESHOLD, 1 << 20) == 1);
    require(malloc_trim(0) >= 0);
}

static void while_fork_is_prepared(void)
{
    pthread_t thread;
    allocate_and_free(NULL);
    look_in();
    require(pthread_create(&thread, NULL, allocate_and_free, NULL) == 0);
    require(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < KEPT; i++) {
        require(is_filled(given[i], size_of(i)));
        free(given[i]);
        kept[i] = malloc(size_of(i));
        fill(kept[i], size_of(i));
    }
}

static ssize_t write_slowly(void *unused, const char *text, size_t length)
{
    (void)unused;
    (void)text;
    int round = round_begun;
    if (round > 0) {
        pthread_barrier_wait(&in_write);
        while (forks_prepared < round || !is_waiting(forking_thread))
            sched_yield();
        while_fork_is_prepared();
    }
    return (ssize_t)length;
}

static void *flush_all(void *unused)
{
    fflush(NULL);
    return unused;
}

static void use_what_was_kept(void)
{
    for (int i = 0; i < KEPT; i++) {
        require(is_filled(kept[i], size_of(i)) && malloc_usable_size(kept[i]) >= size_of(i));
        free(kept[i]);
    }
    allocate_and_free(NULL);
}

/* Registered after the allocator's, so called before it. */
static void note_prepared(void)
{
    forks_prepared++;
}

static void fork_once(void)
{
    pthread_t flushing;
    for (int i = 0; i < KEPT; i++) {
        given[i] = malloc(size_of(i));
        fill(given[i], size_of(i));
    }
    require(fputc('x', watched) == 'x');
    round_begun++;
    require(pthread_create(&flushing, NULL, flush_all, NULL) == 0);
    pthread_barrier_wait(&in_write);
    pid_t child = fork();
    require(child >= 0);
    if (child == 0) {
        alarm(600);
        use_what_was_kept();
        pthread_t thread;
        require(pthread_create(&thread, NULL, allocate_and_free, NULL) == 0);
        require(pthread_join(thread, NULL) == 0);
        malloc_trim(0);
        (void)mallinfo2();
        _exit(0);
    }
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
    require(pthread_join(flushing, NULL) == 0);
    use_what_was_kept();
}

int main(void)
{
    alarm(900); /* a deadlock ends with SIGALRM */
    exercise();
    forking_thread = gettid();
    require(pthread_barrier_init(&in_write, NULL, 2) == 0);
    require(pthread_atfork(note_prepared, NULL, NULL) == 0);
    watched = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_slowly});
    require(watched != NULL);
    for (int i = 0; i < FORKS; i++)
        fork_once();
    round_begun = 0;
    return 0;
}
