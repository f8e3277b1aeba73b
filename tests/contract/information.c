/* SPDX-License-Identifier: MIT
 *
 * information.c: what mallinfo2, malloc_info, malloc_stats and malloc_trim say.
 *
 *     sums     mallinfo2 and mallinfo follow what is allocated and freed
 *     xml      malloc_info's text to standard output, in a process with threads and large blocks
 *     stats    malloc_stats, to standard error
 *     trim     malloc_trim says 1 when memory was given back, 0 when there was none
 *     full     malloc_info to a device without room
 *     blocked  malloc_stats to a pipe that nobody reads: the heap is not held meanwhile, nor after
 *              the thread was cancelled there
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "tests/contract/contract.h"

enum { BLOCKS = 20000, SIZE = 1000, LARGE = 8 << 20 };
static void *blocks[BLOCKS];

static void allocate_all(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        require(blocks[i] != NULL);
        memset(blocks[i], 1, SIZE);
    }
}

static void free_all(void)
{
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static size_t in_use(const struct mallinfo2 *info)
{
    return info->uordblks + info->hblkhd;
}

static void require_consistent(const struct mallinfo2 *info)
{
    require(info->uordblks + info->fordblks == info->arena);
    require(info->fsmblks <= info->fordblks);
    require((info->hblks == 0) == (info->hblkhd == 0));
    require(info->uordblks <= info->arena && info->hblkhd < (size_t)1 << 40);
}

static void require_sums(void)
{
    struct mallinfo2 before = mallinfo2();
    require_consistent(&before);
    allocate_all();
    struct mallinfo2 full = mallinfo2();
    require_consistent(&full);
    require(in_use(&full) >= in_use(&before) + (size_t)BLOCKS * SIZE);
    void *large = malloc(LARGE);
    struct mallinfo2 with_large = mallinfo2();
    require_consistent(&with_large);
    require(in_use(&with_large) >= in_use(&full) + LARGE);
    free(large);
    free_all();
    struct mallinfo2 after = mallinfo2();
    require_consistent(&after);
    require(in_use(&after) <= in_use(&full) - (size_t)BLOCKS * SIZE * 9 / 10);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo old = mallinfo();
    require(old.arena == (int)after.arena && old.hblkhd == (int)after.hblkhd);
}

static void *allocate_some(void *unused)
{
    exercise();
    return unused;
}

static void write_xml(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        require(pthread_create(&threads[i], NULL, allocate_some, NULL) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    allocate_all();
    void *large = malloc(LARGE);
    require(malloc_info(0, stdout) == 0);
    free(large);
    free_all();
    require(malloc_info(0, stdout) == 0);
}

static void require_trim(void)
{
    require(malloc_trim(0) >= 0);
    allocate_all();
    free_all();
    require(malloc_trim(0) == 1);
    exercise();
}

/* Unbuffered, so that the failure is malloc_info's own to see. glibc says 0 all the same. */
static void require_full_device(void)
{
    FILE *stream = fopen("/dev/full", "w");
    require(stream && setvbuf(stream, NULL, _IONBF, 0) == 0);
    int result = malloc_info(0, stream);
    require(result == 0 || result == -1);
    require(ferror(stream));
    fclose(stream);
    errno = 0;
    require(malloc_info(1, stdout) != 0);
}

static int pipe_ends[2];

static void fill_pipe(void)
{
    char bytes[4096] = {0};
    require(fcntl(pipe_ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(pipe_ends[1], bytes, sizeof bytes) > 0)
        ;
    require(errno == EAGAIN && fcntl(pipe_ends[1], F_SETFL, 0) == 0);
}

static void drain_pipe(void)
{
    char bytes[4096];
    require(fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK) == 0);
    while (read(pipe_ends[0], bytes, sizeof bytes) > 0)
        ;
}

static bool sleeps_in_write(pid_t thread)
{
    char name[64], text[32] = "";
    snprintf(name, sizeof name, "/proc/self/task/%d/syscall", thread);
    int file = open(name, O_RDONLY);
    require(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    return text[0] != 'r' && atoi(text) == SYS_write;
}

static _Atomic pid_t telling;

static void *tell(void *unused)
{
    telling = gettid();
    malloc_stats();
    return unused;
}

static void require_heap_while_blocked(void)
{
    pthread_t thread, other;
    int standard_error = dup(2);
    exercise();
    require(pipe(pipe_ends) == 0 && dup2(pipe_ends[1], 2) == 2);
    for (int round = 0; round < 3; round++) {
        telling = 0;
        fill_pipe();
        require(pthread_create(&thread, NULL, tell, NULL) == 0);
        while (!telling || !sleeps_in_write(telling))
            usleep(100);
        exercise();
        require(pthread_cancel(thread) == 0);
        require(pthread_create(&other, NULL, allocate_some, NULL) == 0);
        require(pthread_join(other, NULL) == 0);
        drain_pipe();
        require(pthread_join(thread, NULL) == 0);
        exercise();
        require(mallinfo2().uordblks > 0);
    }
    require(dup2(standard_error, 2) == 2);
}

int main(int count, char **arguments)
{
    alarm(600); /* a deadlock ends with SIGALRM */
    require(count == 2);
    if (strcmp(arguments[1], "sums") == 0)
        require_sums();
    else if (strcmp(arguments[1], "xml") == 0)
        write_xml();
    else if (strcmp(arguments[1], "trim") == 0)
        require_trim();
    else if (strcmp(arguments[1], "full") == 0)
        require_full_device();
    else if (strcmp(arguments[1], "blocked") == 0)
        require_heap_while_blocked();
    else
        malloc_stats();
    return 0;
}
