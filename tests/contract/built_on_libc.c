/* SPDX-License-Identifier: MIT
 *
 * built_on_libc.c: a program that brings functions of malloc's family, built on libc's others.
 *
 * Its malloc puts a header before each block of __libc_malloc, as profilers and debuggers do.
 * libc's functions never call each other by their public names. A replacement whose __libc_realloc
 * calls malloc is called by the program's malloc, and calls that: it waits for itself where the
 * program holds a lock, and the block has two headers.
 */
#include "tests/contract/contract.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

enum { HEADER_BYTES = 16, MARK = 12345 };

/* A lock of the program's, which nothing that it calls may want. */
static __thread bool locked;

static void lock(void)
{
    require(!locked);
    locked = true;
}

static void *unlock(void *result)
{
    locked = false;
    return result;
}

static void *mark(char *whole)
{
    if (!whole)
        return NULL;
    *(int *)(void *)whole = MARK;
    return whole + HEADER_BYTES;
}

static char *whole_of(void *block)
{
    char *whole = block ? (char *)block - HEADER_BYTES : NULL;
    require(!whole || *(int *)(void *)whole == MARK);
    return whole;
}

void *malloc(size_t size)
{
    lock();
    return unlock(mark(__libc_malloc(size + HEADER_BYTES)));
}

void *calloc(size_t count, size_t size)
{
    lock();
    return unlock(mark(__libc_calloc(1, count * size + HEADER_BYTES)));
}

void *realloc(void *block, size_t size)
{
    lock();
    return unlock(mark(__libc_realloc(whole_of(block), size + HEADER_BYTES)));
}

void free(void *block)
{
    lock();
    __libc_free(whole_of(block));
    unlock(NULL);
}

void *memalign(size_t alignment, size_t size)
{
    lock();
    return unlock(aligned_alloc(alignment, size));
}

struct mallinfo2 mallinfo2(void)
{
    lock();
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo info = mallinfo();
    unlock(NULL);
    return (struct mallinfo2){.uordblks = (unsigned)info.uordblks};
}

int main(void)
{
    char *text = NULL;
    for (size_t size = 1; size < 100000; size *= 2) {
        text = realloc(text, size);
        require(text != NULL);
        text[size - 1] = 'x';
    }
    free(text);
    text = strdup("a block of libc's caller");
    free(text);
    lock();
    require(!__libc_realloc(__libc_realloc(NULL, 100), 0));
    unlock(NULL);
    require(mallinfo2().uordblks > 0);
    void *aligned = memalign(256, 100);
    require(aligned && (uintptr_t)aligned % 256 == 0);
    __libc_free(aligned);
    return 0;
}
