/* SPDX-License-Identifier: MIT
 *
 * replay_player.c: allotrope-replay, which makes the allocations and frees of a recording in this
 * process, under whatever allocator it was started with, and tells on standard output (JSON) what
 * they cost.
 *
 *   allotrope-replay OPERATIONS
 *
 * It keeps one word for each object that is live at one time, in memory of its own, and reads the
 * operations (trace/events/operations.h) through a fixed buffer: nothing but the operations
 * allocates. Each block is written to once in each of its pages, as a program does that uses what
 * it asked for. Times are of the operations and this writing alone, without the reading.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "trace/base/flush_all.h"
#include "trace/base/json.h"
#include "trace/events/allocations.h"
#include "trace/events/operations.h"

enum { PAGE = 4096, BATCH = 4096 };

static struct operation batch[BATCH];
static void **slot;

static _Noreturn void fail(const char *what, const char *why)
{
    dprintf(STDERR_FILENO, "allotrope: %s: %s\n", what, why);
    _exit(1);
}

static size_t read_fully(int fd, void *to, size_t bytes)
{
    size_t got = 0;
    while (got < bytes) {
        ssize_t some = read(fd, (char *)to + got, bytes - got);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            break;
        got += (size_t)some;
    }
    return got;
}

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* A line of /proc/self/status in KiB, by system calls and without memory of the heap. */
static uint64_t status_bytes(const char *key)
{
    static char text[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    size_t length = fd < 0 ? 0 : read_fully(fd, text, sizeof text - 1);
    close(fd);
    text[length] = '\0';
    const char *line = strstr(text, key);
    return line ? strtoull(line + strlen(key), NULL, 10) * 1024 : 0;
}

static void touch(void *block, size_t from, size_t size)
{
    volatile char *byte = block;
    if (size > from)
        byte[from] = 1;
    for (size_t at = (from / PAGE + 1) * PAGE; at < size; at += PAGE)
        byte[at] = 1;
    if (size > from)
        byte[size - 1] = 1;
}

static void *make(const struct operation *operation)
{
    if (operation->zeroed)
        return calloc(1, operation->size);
    if (operation->alignment)
        return memalign((size_t)1 << operation->alignment, operation->size);
    /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): 0 where the program asked for 0 */
    return malloc(operation->size);
}

static void play(const struct operation *operation)
{
    void **place = &slot[operation->slot];
    if (operation->type == ALLOCATION_FREE) {
        free(*place);
        *place = NULL; /* a collector is to find no trace of it */
        return;
    }
    void *block =
        operation->type == ALLOCATION_NEW ? make(operation) : realloc(*place, operation->size);
    if (!block && operation->size > 0)
        fail("malloc", "no memory left");
    touch(block, 0, operation->size);
    *place = block;
}

static void tell(uint64_t played, double seconds, uint64_t before)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    uint64_t peak = status_bytes("VmHWM:");
    static char buffer[1024]; /* stdio would ask malloc for one */
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    struct json json = {.output = stdout};
    json_open(&json, NULL);
    json_number(&json, "operations", played);
    json_seconds(&json, "cpu_seconds", seconds);
    json_number(&json, "rss_before_bytes", before);
    json_number(&json, "rss_peak_bytes", peak);
    json_number(&json, "rss_end_bytes", status_bytes("VmRSS:"));
    json_integer(&json, "minor_faults", usage.ru_minflt);
    json_close(&json);
    putchar('\n');
    if (flush_all(stdout) < 0)
        fail("standard output", strerror(errno));
}

int main(int argc, char **argv)
{
    struct operations_head head;
    uint64_t played = 0;
    double seconds = 0;
    int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        fail(argc == 2 ? argv[1] : "usage: allotrope-replay OPERATIONS", strerror(errno));
    if (read_fully(fd, &head, sizeof head) != sizeof head || head.magic != OPERATIONS_MAGIC)
        fail(argv[1], "holds no operations; `allotrope replay` makes them of a recording");
    slot = mmap(NULL, (head.slots + 1) * sizeof *slot, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (slot == MAP_FAILED)
        fail("the table of objects", strerror(errno));
    memset(batch, 0, sizeof batch); /* in memory before it is measured */
    uint64_t before = status_bytes("VmRSS:");
    while (played < head.count) {
        uint64_t left = head.count - played;
        size_t count = left < BATCH ? (size_t)left : BATCH;
        if (read_fully(fd, batch, count * sizeof *batch) != count * sizeof *batch)
            fail(argv[1], "is cut short");
        double start = cpu_seconds();
        for (size_t i = 0; i < count; i++)
            play(&batch[i]);
        seconds += cpu_seconds() - start;
        played += count;
    }
    tell(played, seconds, before);
    return 0;
}
