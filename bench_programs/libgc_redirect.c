/* SPDX-License-Identifier: MIT
 *
 * libgc_redirect.c: the Boehm-Demers-Weiser collector under a program that knows nothing of it, to
 * be preloaded. free does nothing, as in Zorn's study; a block's end and interior count as pointers
 * to it (libgc's default).
 *
 * Only for programs of one thread: libgc learns of others when they are made through its own
 * pthread_create, which nothing here redirects.
 *
 * With GC_ENABLE_INCREMENTAL libgc protects pages to learn which are written. The kernel does not
 * take such a fault for a program: read() into a protected page fails. So ours writes the pages
 * first. A program that handles SIGSEGV itself (gawk) cannot be collected so.
 *
 * LIBGC_STATS=FOLDER: what the collector did, in FOLDER/PID.json, in the words of our own
 * collectors' statistics.
 */
#include <gc.h>

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* libgc allocates its own tables by mmap, but what it calls may call malloc before it is ready. */
static _Alignas(16) char early[1 << 16];
static size_t early_used;
static int state; /* 0: untouched, 1: being initialised, 2: ready */

static void *early_block(size_t size)
{
    size_t rounded = (size + 15) & ~(size_t)15;
    if (rounded < size || rounded > sizeof early - early_used)
        return NULL;
    void *block = early + early_used;
    early_used += rounded;
    return block;
}

static struct {
    const char *folder;
    uint64_t begun, begun_cpu, pauses, pause_ns, longest_pause_ns, cpu_ns;
} account;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Under libgc's lock. */
static void on_collection(GC_EventType event)
{
    if (event == GC_EVENT_PRE_STOP_WORLD) {
        account.begun = clock_ns(CLOCK_MONOTONIC);
        account.begun_cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    } else if (event == GC_EVENT_POST_START_WORLD) {
        uint64_t pause = clock_ns(CLOCK_MONOTONIC) - account.begun;
        account.cpu_ns += clock_ns(CLOCK_PROCESS_CPUTIME_ID) - account.begun_cpu;
        account.pauses++;
        account.pause_ns += pause;
        if (pause > account.longest_pause_ns)
            account.longest_pause_ns = pause;
    }
}

/* With what libgc has unmapped for a while, its heap never shrinks: this is the largest. */
static void write_account(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%ld.json", account.folder, (long)getpid());
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file,
            "{\"heap_bytes\": %zu, \"collections\": %lu, \"pauses\": %lu, \"pause_ns\": %lu, "
            "\"longest_pause_ns\": %lu, \"cpu_ns\": %lu}\n",
            GC_get_heap_size() + GC_get_unmapped_bytes(), (unsigned long)GC_get_gc_no(),
            account.pauses, account.pause_ns, account.longest_pause_ns, account.cpu_ns);
    fclose(file);
}

static void begin(void)
{
    state = 1;
    GC_INIT();
    state = 2;
    account.folder = getenv("LIBGC_STATS");
    if (account.folder) {
        GC_set_on_collection_event(on_collection);
        atexit(write_account);
    }
}

static void *obtain(size_t size)
{
    if (state == 0) {
        begin();
    }
    void *block = state == 1 ? early_block(size ? size : 1) : GC_malloc(size ? size : 1);
    if (!block)
        errno = ENOMEM;
    return block;
}

void *malloc(size_t size)
{
    return obtain(size);
}

void free(void *block)
{
    (void)block;
}

/* GC_malloc's blocks are zero. */
void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return obtain(bytes);
}

/* What of a block the program may use. libgc adds a byte to every request, so that the address
 * behind it is the block's too, and therefore does not look for a pointer in the last word: a
 * program that was given GC_size() bytes would lose what it keeps there. */
static size_t usable_size(void *block)
{
    return GC_size(block) - 1;
}

void *realloc(void *block, size_t size)
{
    if (!block)
        return obtain(size);
    size_t had = GC_base(block) ? usable_size(block) : size;
    if (size <= had && size >= had / 2)
        return block;
    void *fresh = obtain(size);
    if (fresh)
        memcpy(fresh, block, had < size ? had : size);
    return fresh;
}

ssize_t read(int file, void *place, size_t size)
{
    enum { PAGE = 4096 };
    if (state == 2 && GC_is_incremental_mode() && GC_base(place))
        for (size_t at = 0; at < size; at += PAGE)
            ((volatile char *)place)[at] = 0; /* nothing there is of use before a read */
    return syscall(SYS_read, file, place, size);
}

int posix_memalign(void **place, size_t alignment, size_t size)
{
    *place = GC_memalign(alignment, size ? size : 1);
    return *place ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return GC_memalign(alignment, size ? size : 1);
}

void *memalign(size_t alignment, size_t size)
{
    return GC_memalign(alignment, size ? size : 1);
}

size_t malloc_usable_size(void *block)
{
    return block ? usable_size(block) : 0;
}
