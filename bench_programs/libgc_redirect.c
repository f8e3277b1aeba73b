/* SPDX-License-Identifier: MIT
 *
 * libgc_redirect.c: the Boehm-Demers-Weiser collector under a program that knows nothing of it, to
 * be preloaded. free does nothing, as in Zorn's study; a block's end and interior count as pointers
 * to it (libgc's default).
 *
 * Only for programs of one thread: libgc learns of others when they are made through its own
 * pthread_create, which nothing here redirects.
 */
#include <gc.h>

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

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

static void *obtain(size_t size)
{
    if (state == 0) {
        state = 1;
        GC_INIT();
        state = 2;
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
