/* SPDX-License-Identifier: MIT
 *
 * allocation_recorder.c: preloaded, writes down what a single-threaded program asks of malloc, in
 * the notation of heap_driver.c but with addresses in place of numbers; record_allocations.py
 * makes numbers of them. Blocks are really libc's.
 *
 *   ALLOCATION_RECORD   the file to write; ".PID" is added
 *
 *   a SIZE RESULT | m ALIGNMENT SIZE RESULT | f BLOCK | r BLOCK SIZE RESULT
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static int file = -1;
static char buffer[65536];
static size_t used;
static int inside;

static void flush(void)
{
    for (size_t written = 0; written < used;) {
        ssize_t count = write(file, buffer + written, used - written);
        if (count <= 0)
            _exit(125);
        written += (size_t)count;
    }
    used = 0;
}

__attribute__((constructor)) static void start(void)
{
    char path[4096];
    const char *base = getenv("ALLOCATION_RECORD");
    inside = 1;
    if (base) {
        snprintf(path, sizeof path, "%s.%d", base, (int)getpid());
        file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    }
    inside = 0;
}

__attribute__((destructor)) static void finish(void)
{
    if (file >= 0)
        flush();
    file = -1;
}

static void record(char word, int fields, uint64_t first, uint64_t second, uint64_t third)
{
    if (file < 0 || inside)
        return;
    inside = 1;
    if (used > sizeof buffer - 128)
        flush();
    uint64_t values[] = {first, second, third};
    buffer[used++] = word;
    for (int i = 0; i < fields; i++)
        used += (size_t)snprintf(buffer + used, 32, " %lu", (unsigned long)values[i]);
    buffer[used++] = '\n';
    inside = 0;
}

void *malloc(size_t size)
{
    void *block = __libc_malloc(size);
    record('a', 2, size, (uintptr_t)block, 0);
    return block;
}

void *calloc(size_t count, size_t size)
{
    void *block = __libc_calloc(count, size);
    record('a', 2, count * size, (uintptr_t)block, 0);
    return block;
}

void *realloc(void *old, size_t size)
{
    uint64_t old_address = (uintptr_t)old;
    void *block = __libc_realloc(old, size);
    record('r', 3, old_address, size, (uintptr_t)block);
    return block;
}

void free(void *block)
{
    if (block)
        record('f', 1, (uintptr_t)block, 0, 0);
    __libc_free(block);
}

void *memalign(size_t alignment, size_t size)
{
    void *block = __libc_memalign(alignment, size);
    record('m', 3, alignment, size, (uintptr_t)block);
    return block;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size)
{
    void *block = memalign(alignment, size);
    if (!block)
        return ENOMEM;
    *result = block;
    return 0;
}
